// SPDX-License-Identifier: Apache-2.0
// Metrics of cards and compute units on tritonserver's metrics port, by the names of docs/metrics.md. A thread reads the
// figures once a second; a request costs nothing here. Without metrics in the server (--allow-metrics=false), there is no
// thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/triton.hpp"
#include "card/card.hpp"

namespace hypersonic {

// The values of a metric by the label of its part, such as a sensor; by "" if it has only one.
using Values = std::map<std::string, double>;

// A metric of cards or compute units, and its family in tritonserver.
struct Family {
  TRITONSERVER_MetricKind kind;
  const char* name;
  const char* text;
  const char* part;  // the name of the part's label, null without parts
  TRITONSERVER_MetricFamily* made;
};

// The series of one card, or of one compute unit of a model version.
class SeriesSet {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  explicit SeriesSet(Labels labels) : labels_(std::move(labels)) {}
  ~SeriesSet();
  SeriesSet(const SeriesSet&) = delete;
  SeriesSet& operator=(const SeriesSet&) = delete;

  // A series without a value ends.
  void publish(const Family& family, const Values& values);

 private:
  struct Series {
    TRITONSERVER_Metric* metric;
    double value;
  };

  TRITONSERVER_Metric* made(const Family& family, const std::string& part) const;

  Labels labels_;
  std::map<std::pair<const Family*, std::string>, Series> series_;
};

class Metrics {
 public:
  Metrics();
  // Nothing is shown any more.
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Shows the compute units of a model version on a card, and the card, until hide(). The card is shown for ever.
  void show(const Tenant& tenant);
  void hide(const Tenant& tenant) noexcept;

 private:
  struct ShownUnit;
  struct ShownCard;

  void work() noexcept;
  void publish();
  void count_cycles();

  std::vector<Family> unit_families_;
  std::vector<Family> card_families_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::unique_ptr<ShownUnit>> units_;
  std::map<const KnownCard*, std::unique_ptr<ShownCard>> cards_;
  std::uint64_t last_ns_ = 0;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace hypersonic
