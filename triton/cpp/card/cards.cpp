// SPDX-License-Identifier: Apache-2.0
#include "card/cards.hpp"

#include "driver/error.hpp"

namespace hypersonic {
namespace {

constexpr unsigned kMaxCards = 64;

[[noreturn]] void all_busy(const std::string& busy, const Wish& wish) {
  throw Error(Kind::DeviceBusy, "no card is free for model " + quoted(wish.model) + ": " + busy +
                                    "; unload one of these models first, or add a card");
}

}  // namespace

std::vector<std::unique_ptr<Tenant>> Cards::place(const Wish& wish, const std::vector<unsigned>& wanted,
                                                  const std::function<void()>& on_change) {
  const std::scoped_lock lock(mutex_);
  std::vector<std::unique_ptr<Tenant>> tenants;
  if (wanted.empty()) {
    tenants.push_back(anywhere(wish, on_change));
  }
  for (const unsigned index : wanted) {
    std::string busy;
    tenants.push_back(try_card(index, wish, on_change, busy));
    if (tenants.back() == nullptr) {
      all_busy(busy, wish);
    }
  }
  return tenants;
}

std::unique_ptr<Tenant> Cards::anywhere(const Wish& wish, const std::function<void()>& on_change) {
  std::string busy;
  const bool emulated = wish.manifest.emulated();
  for (const auto& [key, weak] : cards_) {
    const auto card = key.first == emulated ? weak.lock() : nullptr;
    if (card != nullptr && !card->units_for(wish).empty()) {
      if (auto tenant = try_card(key.second, wish, on_change, busy)) {
        return tenant;
      }
    }
  }
  busy.clear();
  for (unsigned index = 0; index < kMaxCards; ++index) {
    try {
      if (auto tenant = try_card(index, wish, on_change, busy)) {
        return tenant;
      }
    } catch (const Error& error) {
      if (error.kind() == Kind::DeviceNotFound && !busy.empty()) {
        break;
      }
      if (error.kind() != Kind::DeviceBusy && error.kind() != Kind::ComputeUnitOutOfService) {
        throw;
      }
      busy += (busy.empty() ? "" : "; ") + std::string(error.what());
    }
  }
  all_busy(busy, wish);
}

std::unique_ptr<Tenant> Cards::try_card(unsigned index, const Wish& wish, const std::function<void()>& on_change,
                                        std::string& busy) {
  const bool emulated = wish.manifest.emulated();
  auto card = cards_[{emulated, index}].lock();
  if (card != nullptr) {
    const auto units = card->units_for(wish);
    if (!units.empty()) {
      return std::make_unique<Tenant>(card, wish, units, on_change);
    }
    const char* what = card->uuid() == wish.manifest.uuid ? " has its kernel, but it is used by " : " has the xclbin of ";
    busy += (busy.empty() ? "card " : "; card ") + std::to_string(index) + what + card->models();
    return nullptr;
  }
  card = std::make_shared<Card>(library_for(emulated), index, emulated, log_);
  card->open(wish);
  if (emulated) {
    log_(false, "card " + std::to_string(index) + " is SIMULATED: this machine computes its answers, no FPGA does");
  }
  auto tenant = std::make_unique<Tenant>(card, wish, wish.manifest.compute_units, on_change);
  cards_[{emulated, index}] = card;
  return tenant;
}

std::shared_ptr<Library> Cards::library_for(bool emulated) {
  auto& library = libraries_[emulated];
  if (library == nullptr) {
    library = std::make_shared<Library>(library_path(emulated, emulation_));
  }
  return library;
}

}  // namespace hypersonic
