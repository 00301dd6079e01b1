// SPDX-License-Identifier: Apache-2.0
// Metrics of compute units on tritonserver's metrics port, by the names of docs/metrics.md. Without metrics in the server
// (--allow-metrics=false), nothing is counted.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "backend/triton.hpp"

namespace hypersonic {

enum class Metric : std::size_t { kRuns, kTimeouts, kRevived, kInService, kBusySeconds, kBytesIn, kBytesOut };
constexpr std::size_t kMetrics = 7;

// The families, for all models.
class Families {
 public:
  Families();
  ~Families();
  Families(const Families&) = delete;
  Families& operator=(const Families&) = delete;
  TRITONSERVER_MetricFamily* of(Metric metric) const noexcept { return families_[static_cast<std::size_t>(metric)]; }

 private:
  std::array<TRITONSERVER_MetricFamily*, kMetrics> families_{};
};

// The series of one model version on one compute unit.
class UnitMetrics {
 public:
  UnitMetrics(const Families& families, const std::string& model, const std::string& version, const std::string& unit,
              const std::string& card);
  ~UnitMetrics();
  UnitMetrics(const UnitMetrics&) = delete;
  UnitMetrics& operator=(const UnitMetrics&) = delete;
  void add(Metric metric, double value) noexcept;
  void set(Metric metric, double value) noexcept;

 private:
  std::array<TRITONSERVER_Metric*, kMetrics> metrics_{};
};

}  // namespace hypersonic
