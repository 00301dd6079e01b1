// SPDX-License-Identifier: Apache-2.0
#include "card/card.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
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

std::string resources(std::size_t units, const Xclbin& xclbin) {
  return std::to_string(units) + " compute unit" + (units != 1 ? "s" : "") +
         (xclbin.kernel_clock_mhz != 0 ? " at " + std::to_string(xclbin.kernel_clock_mhz) + " MHz" : "");
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

OpenFile::OpenFile(const std::string& path) noexcept : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

Card::Card(std::shared_ptr<Library> library, unsigned index, std::shared_ptr<KnownCard> known, Log log)
    : library_(std::move(library)),
      index_(index),
      known_(std::move(known)),
      log_(std::move(log)),
      medic_(&Card::recover, this) {}

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
  load(&wish);
}

void Card::load(const Wish* wish) {
  const Handle device = library_->open_device(index_);
  OpenFile file;
  try {
    const std::string path = wish != nullptr ? wish->directory + "/model.xclbin" : file_.path();
    const std::string& expected = wish != nullptr ? wish->contents.uuid : contents_.uuid;
    file = OpenFile(path);
    const std::string uuid = library_->load_xclbin(device, path);
    if (uuid != expected) {
      throw Error(Kind::XclbinMismatch,
                  "card " + std::to_string(index_) + " holds xclbin " + uuid + ", expected " + expected + " of " + path +
                      ": the file changed while it was loaded, or another process loaded its own; start again");
    }
  } catch (...) {
    library_->close_device(device);
    throw;
  }
  if (wish != nullptr) {
    contents_ = wish->contents;
  }
  file_ = std::move(file);
  device_ = device;
  ++known_->usage.loads;
}

bool Card::has_xclbin_of(const Wish& wish) const {
  const std::scoped_lock lock(mutex_);
  return contents_.uuid == wish.contents.uuid;
}

std::vector<std::string> Card::units_for(const Wish& wish) const {
  const std::scoped_lock lock(mutex_);
  if (!contents_.runs(wish.contents, wish.manifest.kernel)) {
    return {};
  }
  std::vector<std::string> units = contents_.units_of(wish.manifest.kernel);
  for (const Tenant* tenant : tenants_) {
    if (!may_share(tenant->wish(), wish)) {
      for (const auto& lane : tenant->lanes()) {
        units.erase(std::remove(units.begin(), units.end(), lane->unit_name()), units.end());
      }
    }
  }
  return units;
}

std::string Card::shortfall(const Wish& wish, std::size_t units) const {
  const std::scoped_lock lock(mutex_);
  const std::string here = resources(units, contents_);
  const std::string wanted = resources(wish.manifest.compute_units.size(), wish.contents);
  return here == wanted ? ""
                        : "the model has " + here + " of card " + std::to_string(index_) +
                              ", which it shares; its own xclbin, which is not loaded, has " + wanted +
                              ". Unload the model and load it again when no other model is on the card, or add a card";
}

bool Card::has_version_of(const Wish& wish) const {
  const std::scoped_lock lock(mutex_);
  return std::any_of(tenants_.begin(), tenants_.end(),
                     [&wish](const Tenant* tenant) { return tenant->wish().model == wish.model; });
}

std::string Card::busy(const Wish& wish) const {
  const std::scoped_lock lock(mutex_);
  const bool has_kernel = contents_.runs(wish.contents, wish.manifest.kernel);
  std::string models;
  for (const Tenant* tenant : tenants_) {
    models += (models.empty() ? "" : ", ") + quoted(tenant->wish().model);
  }
  return "card " + std::to_string(index_) + (has_kernel ? " has its kernel, but it is used by " : " has the xclbin of ") +
         (models.empty() ? "a model that is being loaded" : models);
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
    slot = std::make_unique<Slot>(*lane.unit_, link_, lane.figures_, &wish, wish.slot_rows, wish.manifest.inputs.bytes,
                                  wish.manifest.outputs.bytes, weights);
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
  auto unit = std::make_shared<Unit>(*library_, device_, contents_, known_->usage, wish.manifest.kernel, name);
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

const Wish* Card::to_load() const {
  const Wish* found = nullptr;
  for (const Tenant* tenant : tenants_) {
    const Wish& wish = tenant->wish();
    if (wish.contents.uuid == contents_.uuid) {
      return nullptr;
    }
    std::error_code ignored;
    if (found == nullptr && std::filesystem::exists(wish.directory + "/model.xclbin", ignored) && fits(wish)) {
      found = &wish;
    }
  }
  return found;
}

bool Card::fits(const Wish& wish) const {
  return std::all_of(tenants_.begin(), tenants_.end(), [&wish](const Tenant* tenant) {
    const Wish& other = tenant->wish();
    const auto units = wish.contents.units_of(other.manifest.kernel);
    return wish.contents.runs(other.contents, other.manifest.kernel) &&
           std::all_of(tenant->lanes().begin(), tenant->lanes().end(), [&units](const auto& lane) {
             return std::find(units.begin(), units.end(), lane->unit_name()) != units.end();
           });
  });
}

bool Card::reopen() noexcept {
  try {
    load(to_load());
    for (Tenant* tenant : tenants_) {
      for (const auto& lane : tenant->lanes_) {
        open_lane(*lane, tenant->wish_);
        ++lane->figures_.revived;
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
    if (device_ != nullptr) {
      library_->close_device(device_);
      device_ = nullptr;
    }
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
