// SPDX-License-Identifier: Apache-2.0
#include "card/cards.hpp"

#include <sys/utsname.h>

#include <algorithm>
#include <cstdlib>

#include "driver/error.hpp"
#include "model/uuid5.hpp"

namespace hypersonic {
namespace {

constexpr unsigned kMaxCards = 64;
constexpr const char* kSysfs = "/sys";

[[noreturn]] void all_busy(const std::string& busy, const Wish& wish) {
  throw Error(Kind::DeviceBusy, "no card is free for model " + quoted(wish.model) + ": " + busy +
                                    "; unload one of these models first, or add a card");
}

void add(std::string& busy, const std::string& why) { busy += (busy.empty() ? "" : "; ") + why; }

}  // namespace

std::vector<std::unique_ptr<Tenant>> Cards::place(const Wish& wish, const std::vector<unsigned>& wanted,
                                                  const OnChange& on_change) {
  const std::scoped_lock lock(mutex_);
  std::vector<std::unique_ptr<Tenant>> tenants;
  if (wanted.empty()) {
    tenants.push_back(anywhere(wish, on_change));
  }
  for (const unsigned index : wanted) {
    const auto card = open_card(index, wish);
    tenants.push_back(card != nullptr ? join(card, wish, on_change) : alone(index, wish, on_change));
    if (tenants.back() == nullptr) {
      all_busy(card->busy(wish), wish);
    }
  }
  return tenants;
}

std::unique_ptr<Tenant> Cards::anywhere(const Wish& wish, const OnChange& on_change) {
  Places shared;
  Places replaced;
  for (unsigned index = 0; index < kMaxCards; ++index) {
    const auto card = open_card(index, wish);
    const auto units = card != nullptr ? card->units_for(wish).size() : 0;
    if (units != 0) {
      (card->has_version_of(wish) && !card->shortfall(wish, units).empty() ? replaced : shared).push_back(card);
    }
  }
  std::stable_partition(shared.begin(), shared.end(), [&wish](const auto& card) { return card->has_xclbin_of(wish); });
  std::string busy;
  auto tenant = join_any(shared, wish, on_change, busy);
  tenant = tenant != nullptr ? std::move(tenant) : on_free(wish, on_change, busy);
  tenant = tenant != nullptr ? std::move(tenant) : join_any(replaced, wish, on_change, busy);
  if (tenant == nullptr) {
    all_busy(busy, wish);
  }
  return tenant;
}

std::unique_ptr<Tenant> Cards::join_any(const Places& cards, const Wish& wish, const OnChange& on_change, std::string& busy) {
  for (const auto& card : cards) {
    try {
      if (auto tenant = join(card, wish, on_change)) {
        return tenant;
      }
    } catch (const Error& error) {
      if (error.kind() != Kind::DeviceLost && error.kind() != Kind::ComputeUnitOutOfService &&
          error.kind() != Kind::BufferObject && error.kind() != Kind::DeviceBusy) {
        throw;
      }
      add(busy, error.what());
    }
  }
  return nullptr;
}

std::unique_ptr<Tenant> Cards::join(const std::shared_ptr<Card>& card, const Wish& wish, const OnChange& on_change) {
  const auto units = card->units_for(wish);
  if (units.empty()) {
    return nullptr;
  }
  auto tenant = std::make_unique<Tenant>(card, wish, units, on_change);
  const std::string less = card->shortfall(wish, units.size());
  if (!less.empty()) {
    log_(false, quoted(wish.model) + " version " + std::to_string(wish.version) + ": " + less);
  }
  return tenant;
}

std::unique_ptr<Tenant> Cards::on_free(const Wish& wish, const OnChange& on_change, std::string& busy) {
  for (unsigned index = 0; index < kMaxCards; ++index) {
    try {
      if (const auto card = open_card(index, wish)) {
        add(busy, card->busy(wish));
      } else {
        return alone(index, wish, on_change);
      }
    } catch (const Error& error) {
      if (error.kind() == Kind::DeviceNotFound && !busy.empty()) {
        break;
      }
      if (error.kind() != Kind::DeviceBusy && error.kind() != Kind::ComputeUnitOutOfService) {
        throw;
      }
      add(busy, error.what());
    }
  }
  return nullptr;
}

std::unique_ptr<Tenant> Cards::alone(unsigned index, const Wish& wish, const OnChange& on_change) {
  const bool emulated = wish.manifest.emulated();
  const auto card = std::make_shared<Card>(library_for(emulated), index, known(emulated, index), log_);
  card->open(wish);
  if (emulated) {
    log_(false, "card " + std::to_string(index) + " is SIMULATED: this machine computes its answers, no FPGA does");
  }
  auto tenant = std::make_unique<Tenant>(card, wish, wish.manifest.compute_units, on_change);
  cards_[{emulated, index}] = card;
  return tenant;
}

std::shared_ptr<Card> Cards::open_card(unsigned index, const Wish& wish) const {
  const auto found = cards_.find({wish.manifest.emulated(), index});
  return found != cards_.end() ? found->second.lock() : nullptr;
}

std::shared_ptr<KnownCard> Cards::known(bool emulated, unsigned index) {
  utsname host{};
  uname(&host);
  const auto addresses = emulated ? std::vector<std::string>() : card_addresses(kSysfs);
  const std::string address = index < addresses.size() ? addresses[index] : "";
  const char* node = std::getenv("NODE_NAME");
  std::string identity = address.empty() ? "" : serial_number(address, kSysfs);
  if (address.empty()) {
    identity = std::string(host.nodename) + (emulated ? "/emulated card/" : "/card/") + std::to_string(index);
  } else if (identity.empty()) {
    identity = std::string(node != nullptr && *node != '\0' ? node : host.nodename) + "/" + address;
  }
  auto& card = known_[identity];
  if (card == nullptr) {
    card = std::make_shared<KnownCard>();
    card->gpu_uuid = "FPGA-" + uuid5(identity);
    if (!address.empty()) {
      card->sensors = std::make_shared<Sensors>([address] { return read_telemetry(address, kSysfs); });
    }
  }
  return card;
}

std::shared_ptr<Library> Cards::library_for(bool emulated) {
  auto& library = libraries_[emulated];
  if (library == nullptr) {
    library = std::make_shared<Library>(library_path(emulated, emulation_));
  }
  return library;
}

}  // namespace hypersonic
