// SPDX-License-Identifier: Apache-2.0
#include "backend/metrics.hpp"

#include <algorithm>
#include <chrono>

namespace hypersonic {
namespace {

constexpr auto kInterval = std::chrono::seconds(1);

// A compute unit of a model version at one moment.
struct UnitReading {
  const Figures& figures;
  bool in_service;
  std::uint64_t busy_ns;
  double busy_cycles;
  double busy_ratio;
};

// A card at one moment.
struct CardReading {
  const Usage& usage;
  Telemetry sensors;
};

template <typename Reading>
struct Row {
  TRITONSERVER_MetricKind kind;
  const char* name;
  const char* text;
  const char* part;
  Values (*read)(const Reading&);
};

constexpr auto kCounter = TRITONSERVER_METRIC_KIND_COUNTER;
constexpr auto kGauge = TRITONSERVER_METRIC_KIND_GAUGE;

Values one(double value) { return {{"", value}}; }
Values one(std::uint64_t value) { return one(static_cast<double>(value)); }

// The names, kinds and texts of server/observe/metrics/device.py.
constexpr Row<UnitReading> kOfUnits[] = {
    {kCounter, "fpga_compute_unit_runs_total", "Runs completed", nullptr,
     [](const UnitReading& unit) { return one(unit.figures.runs.load()); }},
    {kCounter, "fpga_compute_unit_timeouts_total", "Runs not completed in time", nullptr,
     [](const UnitReading& unit) { return one(unit.figures.timeouts.load()); }},
    {kCounter, "fpga_compute_unit_revived_total", "Times it was lost and brought back", nullptr,
     [](const UnitReading& unit) { return one(unit.figures.revived.load()); }},
    {kGauge, "fpga_compute_unit_in_service", "1 while it takes runs", nullptr,
     [](const UnitReading& unit) { return one(unit.in_service ? 1.0 : 0.0); }},
    {kCounter, "fpga_compute_unit_busy_seconds_total", "Time with a run in flight", nullptr,
     [](const UnitReading& unit) { return one(static_cast<double>(unit.busy_ns) / 1e9); }},
    {kCounter, "fpga_compute_unit_busy_cycles_total", "Kernel clocks with a run in flight", nullptr,
     [](const UnitReading& unit) { return one(unit.busy_cycles); }},
    {kCounter, "fpga_compute_unit_dma_in_bytes_total", "Bytes of tensors sent to the card", nullptr,
     [](const UnitReading& unit) { return one(unit.figures.bytes_in.load()); }},
    {kCounter, "fpga_compute_unit_dma_out_bytes_total", "Bytes of tensors fetched from the card", nullptr,
     [](const UnitReading& unit) { return one(unit.figures.bytes_out.load()); }},
    {kGauge, "fpga_compute_unit_busy_ratio", "Share of time with a run in flight, lately [0.0 - 1.0]", nullptr,
     [](const UnitReading& unit) { return one(unit.busy_ratio); }},
};

constexpr Row<CardReading> kOfCards[] = {
    {kGauge, "fpga_card_power_watts", "Power the card takes, in watts", nullptr,
     [](const CardReading& card) { return card.sensors.power_w ? one(*card.sensors.power_w) : Values(); }},
    {kCounter, "fpga_card_xclbin_reloads_total", "Times an xclbin was loaded to the card after the first one", nullptr,
     [](const CardReading& card) { return one(card.usage.loads.load() - 1); }},
    {kCounter, "fpga_card_dma_in_bytes_total", "Bytes sent to the card, for all models, with weights", nullptr,
     [](const CardReading& card) { return one(card.usage.bytes_to_card.load()); }},
    {kCounter, "fpga_card_dma_out_bytes_total", "Bytes fetched from the card, for all models", nullptr,
     [](const CardReading& card) { return one(card.usage.bytes_from_card.load()); }},
    {kGauge, "fpga_card_bank_used_bytes", "Bytes of this server's buffers by memory bank", "bank",
     [](const CardReading& card) { return card.usage.held_bytes(); }},
    {kGauge, "fpga_card_temperature_celsius", "Temperature by sensor, in degrees Celsius", "sensor",
     [](const CardReading& card) { return card.sensors.temperatures_c; }},
};

template <typename Rows>
std::vector<Family> families(const Rows& rows) {
  std::vector<Family> made;
  for (const auto& row : rows) {
    Family family{row.kind, row.name, row.text, row.part, nullptr};
    if (TRITONSERVER_Error* error = TRITONSERVER_MetricFamilyNew(&family.made, row.kind, row.name, row.text)) {
      family.made = nullptr;
      ignore(error);
    }
    made.push_back(family);
  }
  return made;
}

template <typename Rows, typename Reading>
void publish_rows(const Rows& rows, const std::vector<Family>& families, const Reading& reading, SeriesSet& series) {
  for (std::size_t index = 0; index < families.size(); ++index) {
    if (families[index].made != nullptr) {
      series.publish(families[index], rows[index].read(reading));
    }
  }
}

}  // namespace

SeriesSet::~SeriesSet() {
  for (const auto& each : series_) {
    ignore(TRITONSERVER_MetricDelete(each.second.metric));
  }
}

void SeriesSet::publish(const Family& family, const Values& values) {
  for (auto each = series_.begin(); each != series_.end();) {
    const bool ended = each->first.first == &family && values.count(each->first.second) == 0;
    if (ended) {
      ignore(TRITONSERVER_MetricDelete(each->second.metric));
    }
    each = ended ? series_.erase(each) : std::next(each);
  }
  for (const auto& [part, value] : values) {
    auto found = series_.find({&family, part});
    if (found == series_.end()) {
      TRITONSERVER_Metric* metric = made(family, part);
      if (metric == nullptr) {
        continue;
      }
      found = series_.emplace(std::pair{&family, part}, Series{metric, 0}).first;
    }
    Series& series = found->second;
    ignore(family.kind == kCounter ? TRITONSERVER_MetricIncrement(series.metric, value - series.value)
                                   : TRITONSERVER_MetricSet(series.metric, value));
    series.value = value;
  }
}

TRITONSERVER_Metric* SeriesSet::made(const Family& family, const std::string& part) const {
  std::vector<const TRITONSERVER_Parameter*> labels;
  const auto add = [&labels](const char* name, const std::string& value) {
    labels.push_back(TRITONSERVER_ParameterNew(name, TRITONSERVER_PARAMETER_STRING, value.c_str()));
  };
  for (const auto& [name, value] : labels_) {
    add(name.c_str(), value);
  }
  if (family.part != nullptr) {
    add(family.part, part);
  }
  TRITONSERVER_Metric* metric = nullptr;
  if (TRITONSERVER_Error* error = TRITONSERVER_MetricNew(&metric, family.made, labels.data(), labels.size())) {
    metric = nullptr;
    ignore(error);
  }
  for (const TRITONSERVER_Parameter* label : labels) {
    TRITONSERVER_ParameterDelete(const_cast<TRITONSERVER_Parameter*>(label));
  }
  return metric;
}

struct Metrics::ShownUnit {
  const Tenant* tenant;
  Lane* lane;
  SeriesSet series;
  std::uint64_t busy_ns = 0;
  std::uint64_t busy_ns_before = 0;
  double busy_cycles = 0;
};

struct Metrics::ShownCard {
  std::shared_ptr<KnownCard> card;
  SeriesSet series;
};

Metrics::Metrics() : unit_families_(families(kOfUnits)), card_families_(families(kOfCards)) {
  if (unit_families_.front().made != nullptr) {
    last_ns_ = now_ns();
    thread_ = std::thread(&Metrics::work, this);
  }
}

Metrics::~Metrics() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
  units_.clear();
  cards_.clear();
  for (const auto* all : {&unit_families_, &card_families_}) {
    for (const Family& family : *all) {
      if (family.made != nullptr) {
        ignore(TRITONSERVER_MetricFamilyDelete(family.made));
      }
    }
  }
}

void Metrics::show(const Tenant& tenant) {
  const std::scoped_lock lock(mutex_);
  const auto& card = tenant.card().known();
  const Wish& wish = tenant.wish();
  for (const auto& lane : tenant.lanes()) {
    units_.push_back(std::unique_ptr<ShownUnit>(new ShownUnit{&tenant, lane.get(),
                                                              SeriesSet({{"compute_unit", lane->unit_name()},
                                                                         {"gpu_uuid", card->gpu_uuid},
                                                                         {"model", wish.model},
                                                                         {"version", std::to_string(wish.version)}})}));
  }
  if (cards_.count(card.get()) == 0) {
    cards_.emplace(card.get(), new ShownCard{card, SeriesSet({{"gpu_uuid", card->gpu_uuid}})});
  }
  publish();
}

void Metrics::hide(const Tenant& tenant) noexcept {
  const std::scoped_lock lock(mutex_);
  units_.erase(std::remove_if(units_.begin(), units_.end(), [&tenant](const auto& unit) { return unit->tenant == &tenant; }),
               units_.end());
}

void Metrics::work() noexcept {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kInterval, [this] { return closing_; })) {
    ignore(guarded([this] { publish(); }));
  }
}

void Metrics::publish() {
  const std::uint64_t now = now_ns();
  const auto elapsed_ns = static_cast<double>(std::max<std::uint64_t>(now - last_ns_, 1));
  last_ns_ = now;
  count_cycles();
  for (const auto& unit : units_) {
    const auto busy_ns = static_cast<double>(unit->busy_ns - unit->busy_ns_before);
    bool in_service = false;
    {
      const Lane::Use use(*unit->lane);
      in_service = unit->lane->in_service();
    }
    const UnitReading reading{unit->lane->figures(), in_service, unit->busy_ns, unit->busy_cycles,
                              std::min(busy_ns / elapsed_ns, 1.0)};
    publish_rows(kOfUnits, unit_families_, reading, unit->series);
  }
  for (const auto& each : cards_) {
    ShownCard& shown = *each.second;
    const auto& sensors = shown.card->sensors;
    const CardReading reading{shown.card->usage, sensors != nullptr ? sensors->latest() : Telemetry()};
    publish_rows(kOfCards, card_families_, reading, shown.series);
  }
}

// Counts the clocks of each compute unit since the last call. Those of a unit that models share are divided among them in
// proportion to their times with a run in flight.
void Metrics::count_cycles() {
  std::map<std::pair<const Card*, std::string>, std::vector<ShownUnit*>> sharing;
  for (const auto& unit : units_) {
    unit->busy_ns_before = std::exchange(unit->busy_ns, unit->lane->figures().busy_ns());
    sharing[{&unit->tenant->card(), unit->lane->unit_name()}].push_back(unit.get());
  }
  for (const auto& [which, shown] : sharing) {
    double all_ns = 0;
    for (const ShownUnit* unit : shown) {
      all_ns += static_cast<double>(unit->busy_ns - unit->busy_ns_before);
    }
    const Lane::Use use(*shown.front()->lane);
    Unit* unit = shown.front()->lane->unit();
    const auto cycles = static_cast<double>(unit != nullptr ? unit->new_busy_cycles() : 0);
    for (ShownUnit* each : shown) {
      const auto own_ns = static_cast<double>(each->busy_ns - each->busy_ns_before);
      each->busy_cycles += all_ns > 0 ? cycles * own_ns / all_ns : each == shown.front() ? cycles : 0;
    }
  }
}

}  // namespace hypersonic
