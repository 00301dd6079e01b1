// SPDX-License-Identifier: Apache-2.0
#include "card/card.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "driver/error.hpp"

namespace hypersonic {
namespace {

// polling interval until the threads that use a lost card have let go of it
constexpr auto kSettle = std::chrono::milliseconds(20);

// Versions of a model share its units, and so do models whose kernels read their weights from memory.
bool may_share(const Wish& one, const Wish& other) {
  return one.model == other.model || (one.manifest.weights_bytes != 0 && other.manifest.weights_bytes != 0);
}

}  // namespace

Tenant::Tenant(std::shared_ptr<Card> card, Wish wish, const std::vector<std::string>& units, std::function<void()> on_change)
    : card_(std::move(card)), wish_(std::move(wish)), on_change_(std::move(on_change)) {
  for (const std::string& unit : units) {
    lanes_.push_back(std::make_unique<Lane>(unit, wish_.slots));
  }
  card_->enter(*this);
}

Tenant::~Tenant() { card_->leave(*this); }

Card::Card(std::shared_ptr<Library> library, unsigned index, bool emulated, Log log)
    : library_(std::move(library)), index_(index), emulated_(emulated), log_(std::move(log)), medic_(&Card::recover, this) {}

Card::~Card() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  wake_.notify_all();
  medic_.join();
  release_hung();
  if (device_ != nullptr) {
    library_->close_device(device_);
  }
}

void Card::open(const Wish& wish) {
  const std::scoped_lock lock(mutex_);
  const Handle device = library_->open_device(index_);
  try {
    const std::string path = wish.directory + "/model.xclbin";
    const std::string uuid = library_->load_xclbin(device, path);
    if (uuid != wish.manifest.uuid) {
      throw Error(Kind::XclbinMismatch,
                  "card " + std::to_string(index_) + " holds xclbin " + uuid + ", expected " + wish.manifest.uuid + " of " +
                      path + ": the file changed while it was loaded, or another process loaded its own; start again");
    }
    uuid_ = uuid;
    device_ = device;
  } catch (...) {
    library_->close_device(device);
    throw;
  }
}

std::vector<std::string> Card::units_for(const Wish& wish) const {
  const std::scoped_lock lock(mutex_);
  if (uuid_ != wish.manifest.uuid) {
    return {};
  }
  std::vector<std::string> units = wish.manifest.compute_units;
  for (const Tenant* tenant : tenants_) {
    if (!may_share(tenant->wish(), wish)) {
      for (const auto& lane : tenant->lanes()) {
        units.erase(std::remove(units.begin(), units.end(), lane->unit_name()), units.end());
      }
    }
  }
  return units;
}

std::string Card::models() const {
  const std::scoped_lock lock(mutex_);
  std::string text;
  for (const Tenant* tenant : tenants_) {
    text += (text.empty() ? "" : ", ") + quoted(tenant->wish().model);
  }
  return text.empty() ? "a model that is being loaded" : text;
}

void Card::enter(Tenant& tenant) {
  const std::scoped_lock lock(mutex_);
  if (lost_ || device_ == nullptr) {
    throw Error(Kind::DeviceLost, "card " + std::to_string(index_) + " is lost: " + last_failure_);
  }
  try {
    for (const auto& lane : tenant.lanes_) {
      open_lane(*lane, tenant.wish_);
    }
  } catch (...) {
    for (const auto& lane : tenant.lanes_) {
      close_lane(*lane);
    }
    throw;
  }
  tenants_.push_back(&tenant);
}

void Card::leave(Tenant& tenant) noexcept {
  const std::scoped_lock lock(mutex_);
  tenants_.erase(std::remove(tenants_.begin(), tenants_.end(), &tenant), tenants_.end());
  for (const auto& lane : tenant.lanes_) {
    close_lane(*lane);
  }
  wake_.notify_all();  // all units of the others may be lost
}

void Card::report(const std::exception& error, Unit* unit) noexcept {
  const auto* known = dynamic_cast<const Error*>(&error);
  const std::scoped_lock lock(mutex_);
  if (known != nullptr && known->kind() == Kind::DeviceLost) {
    for (const auto& [name, open] : units_) {
      if (const auto there = open.lock()) {
        there->take_out_of_service(error.what());
      }
    }
  }
  if (unit != nullptr && !unit->in_service()) {
    last_failure_ = error.what();
    log_(true, "card " + std::to_string(index_) + ": " + error.what());
    notify();
    wake_.notify_all();
  }
}

void Card::open_lane(Lane& lane, const Wish& wish) {
  lane.unit_ = unit_of(wish, lane.unit_name_);
  lane.unit_->require_service();
  std::shared_ptr<Buffer> weights;
  if (wish.manifest.weights_bytes != 0) {
    weights = lane.unit_->weights(wish.directory + "/weights.bin", wish.manifest.weights_bytes, wish.manifest.weights_sha256);
  }
  for (auto& slot : lane.slots_) {
    slot = std::make_unique<Slot>(*lane.unit_, link_, wish.slot_rows, wish.manifest.inputs.bytes, wish.manifest.outputs.bytes,
                                  weights);
  }
  lane.ready_.store(true);
}

void Card::close_lane(Lane& lane) noexcept {
  lane.ready_.store(false);
  while (!lane.idle()) {  // a thread that looks at the lane sees that it is not ready, and leaves at once
    std::this_thread::yield();
  }
  for (auto& slot : lane.slots_) {
    slot.reset();
  }
  if (lane.unit_ != nullptr && !lane.unit_->in_service()) {
    hung_.push_back(lane.unit_);
  }
  lane.unit_.reset();
}

std::shared_ptr<Unit> Card::unit_of(const Wish& wish, const std::string& name) {
  if (auto there = units_[name].lock()) {
    return there;
  }
  auto unit = std::make_shared<Unit>(*library_, device_, uuid_, wish.manifest.kernel, name);
  units_[name] = unit;
  return unit;
}

void Card::recover() {
  std::unique_lock lock(mutex_);
  while (!closing_) {
    if (!lost_ && !all_lost()) {
      wake_.wait(lock);
      continue;
    }
    if (!lost_) {
      const bool idle = std::all_of(tenants_.begin(), tenants_.end(), [](const Tenant* tenant) {
        return std::all_of(tenant->lanes_.begin(), tenant->lanes_.end(), [](const auto& lane) { return lane->idle(); });
      });
      if (!idle) {
        wake_.wait_for(lock, kSettle);
        continue;
      }
      release();
    }
    const unsigned retry_ms = tenants_.empty() ? 0 : tenants_.front()->wish_.retry_ms;
    wake_.wait_for(lock, std::chrono::milliseconds(retry_ms), [this] { return closing_; });
    if (closing_ || tenants_.empty() || reopen()) {
      lost_ = false;
    }
  }
}

bool Card::all_lost() const noexcept {
  bool any = false;
  for (const Tenant* tenant : tenants_) {
    for (const auto& lane : tenant->lanes_) {
      any = true;
      if (lane->in_service()) {
        return false;
      }
    }
  }
  return any;
}

void Card::release() noexcept {
  for (Tenant* tenant : tenants_) {
    for (const auto& lane : tenant->lanes_) {
      close_lane(*lane);
    }
  }
  release_hung();
  units_.clear();
  library_->close_device(device_);
  device_ = nullptr;
  lost_ = true;
  log_(true, "card " + std::to_string(index_) + " has been released, and is opened again once it was reset");
}

void Card::release_hung() noexcept {
  for (const auto& unit : hung_) {
    unit->release();
  }
  hung_.clear();
}

bool Card::reopen() noexcept {
  const Wish& wish = tenants_.front()->wish_;
  Handle device = nullptr;
  try {
    device = library_->open_device(index_);
    const std::string uuid = library_->load_xclbin(device, wish.directory + "/model.xclbin");
    if (uuid != uuid_) {
      throw Error(Kind::XclbinMismatch, "card " + std::to_string(index_) + " holds xclbin " + uuid + ", expected " + uuid_);
    }
    device_ = device;
    for (Tenant* tenant : tenants_) {
      for (const auto& lane : tenant->lanes_) {
        open_lane(*lane, tenant->wish_);
      }
    }
  } catch (const std::exception& error) {
    for (Tenant* tenant : tenants_) {
      for (const auto& lane : tenant->lanes_) {
        close_lane(*lane);
      }
    }
    release_hung();
    units_.clear();
    if (device != nullptr) {
      library_->close_device(device);
    }
    device_ = nullptr;
    if (last_failure_ != error.what()) {
      last_failure_ = error.what();
      log_(true, "card " + std::to_string(index_) + " is not back yet: " + last_failure_);
    }
    return false;
  }
  log_(false, "card " + std::to_string(index_) + " is back");
  notify();
  return true;
}

void Card::notify() const noexcept {
  for (const Tenant* tenant : tenants_) {
    tenant->on_change_();
  }
}

}  // namespace hypersonic
