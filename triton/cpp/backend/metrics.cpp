// SPDX-License-Identifier: Apache-2.0
#include "backend/metrics.hpp"

namespace hypersonic {
namespace {

struct Described {
  TRITONSERVER_MetricKind kind;
  const char* name;
  const char* text;
};

constexpr std::array<Described, kMetrics> kDescribed{{
    {TRITONSERVER_METRIC_KIND_COUNTER, "fpga_compute_unit_runs_total", "Runs completed"},
    {TRITONSERVER_METRIC_KIND_COUNTER, "fpga_compute_unit_timeouts_total", "Runs not completed in time"},
    {TRITONSERVER_METRIC_KIND_COUNTER, "fpga_compute_unit_revived_total", "Times it was lost and brought back"},
    {TRITONSERVER_METRIC_KIND_GAUGE, "fpga_compute_unit_in_service", "1 while it takes runs"},
    {TRITONSERVER_METRIC_KIND_COUNTER, "fpga_compute_unit_busy_seconds_total", "Time with a run in flight"},
    {TRITONSERVER_METRIC_KIND_COUNTER, "fpga_compute_unit_dma_in_bytes_total", "Bytes of tensors sent to the card"},
    {TRITONSERVER_METRIC_KIND_COUNTER, "fpga_compute_unit_dma_out_bytes_total", "Bytes of tensors fetched from the card"},
}};

}  // namespace

Families::Families() {
  for (std::size_t index = 0; index < kMetrics; ++index) {
    const Described& described = kDescribed[index];
    if (TRITONSERVER_Error* error =
            TRITONSERVER_MetricFamilyNew(&families_[index], described.kind, described.name, described.text)) {
      families_[index] = nullptr;
      ignore(error);
    }
  }
}

Families::~Families() {
  for (TRITONSERVER_MetricFamily* family : families_) {
    if (family != nullptr) {
      ignore(TRITONSERVER_MetricFamilyDelete(family));
    }
  }
}

UnitMetrics::UnitMetrics(const Families& families, const std::string& model, const std::string& version,
                         const std::string& unit, const std::string& card) {
  const std::array<std::pair<const char*, const std::string*>, 4> named{
      {{"compute_unit", &unit}, {"gpu_uuid", &card}, {"model", &model}, {"version", &version}}};
  std::array<const TRITONSERVER_Parameter*, named.size()> labels{};
  for (std::size_t index = 0; index < named.size(); ++index) {
    labels[index] = TRITONSERVER_ParameterNew(named[index].first, TRITONSERVER_PARAMETER_STRING, named[index].second->c_str());
  }
  for (std::size_t index = 0; index < kMetrics; ++index) {
    TRITONSERVER_MetricFamily* family = families.of(static_cast<Metric>(index));
    if (family == nullptr) {
      continue;
    }
    if (TRITONSERVER_Error* error = TRITONSERVER_MetricNew(&metrics_[index], family, labels.data(), labels.size())) {
      metrics_[index] = nullptr;
      ignore(error);
    }
  }
  for (const TRITONSERVER_Parameter* label : labels) {
    TRITONSERVER_ParameterDelete(const_cast<TRITONSERVER_Parameter*>(label));
  }
}

UnitMetrics::~UnitMetrics() {
  for (TRITONSERVER_Metric* metric : metrics_) {
    if (metric != nullptr) {
      ignore(TRITONSERVER_MetricDelete(metric));
    }
  }
}

void UnitMetrics::add(Metric metric, double value) noexcept {
  if (TRITONSERVER_Metric* found = metrics_[static_cast<std::size_t>(metric)]) {
    ignore(TRITONSERVER_MetricIncrement(found, value));
  }
}

void UnitMetrics::set(Metric metric, double value) noexcept {
  if (TRITONSERVER_Metric* found = metrics_[static_cast<std::size_t>(metric)]) {
    ignore(TRITONSERVER_MetricSet(found, value));
  }
}

}  // namespace hypersonic
