// SPDX-License-Identifier: Apache-2.0
// A card with an xclbin, and the model versions on it.
//
//   one compute unit hangs   The others continue. Nothing is released: the unit may still write, and XRT's driver ends every
//                            process that has the card open when it is reset.
//   all units are lost       Everything is released, so that nothing uses the card when it is reset. Then the card is opened
//                            again at intervals, until it has been reset and its units have no hung run.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "card/figures.hpp"
#include "card/sensors.hpp"
#include "card/slot.hpp"
#include "card/unit.hpp"
#include "driver/library.hpp"
#include "model/manifest.hpp"

namespace hypersonic {

// What a model version asks of a card.
struct Wish {
  std::string model;
  std::uint64_t version;
  Manifest manifest;
  Xclbin contents;        // of its own xclbin
  std::string directory;  // of the version: model.xclbin, weights.bin
  std::size_t slots;
  std::size_t slot_rows;
  unsigned retry_ms;  // polling interval while the card is lost
};

// A model version's slots on one compute unit. The slots are replaced when a lost card has come back.
class Lane {
 public:
  Lane(std::string unit_name, std::size_t slots) : unit_name_(std::move(unit_name)), slots_(slots) {}

  const std::string& unit_name() const noexcept { return unit_name_; }
  std::size_t size() const noexcept { return slots_.size(); }
  // Held by a thread while it uses a slot.
  class Use {
   public:
    explicit Use(Lane& lane) : lane_(lane) { lane_.users_.fetch_add(1); }
    ~Use() { lane_.users_.fetch_sub(1); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Lane& lane_;
  };
  // The next three are called while a Use exists. Null, or false, while the lane has no slots.
  Slot* slot(std::size_t index) const noexcept { return ready_.load() ? slots_[index].get() : nullptr; }
  Unit* unit() const noexcept { return ready_.load() ? unit_.get() : nullptr; }
  bool in_service() const noexcept { return ready_.load() && unit_->in_service(); }
  Figures& figures() noexcept { return figures_; }

 private:
  friend class Card;

  bool idle() const noexcept { return users_.load() == 0; }

  std::string unit_name_;
  std::shared_ptr<Unit> unit_;
  Figures figures_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::atomic<bool> ready_{false};
  std::atomic<int> users_{0};
};

class Card;

// A model version on a card. The card is closed with its last tenant.
class Tenant {
 public:
  Tenant(std::shared_ptr<Card> card, Wish wish, const std::vector<std::string>& units, std::function<void()> on_change);
  ~Tenant();
  Tenant(const Tenant&) = delete;
  Tenant& operator=(const Tenant&) = delete;

  const Wish& wish() const noexcept { return wish_; }
  const std::vector<std::unique_ptr<Lane>>& lanes() const noexcept { return lanes_; }
  Card& card() const noexcept { return *card_; }

 private:
  friend class Card;

  std::shared_ptr<Card> card_;
  Wish wish_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::function<void()> on_change_;  // called when lanes were lost or are back
};

// Receives one line for the log. error: false for information.
using Log = std::function<void(bool error, const std::string& text)>;

// A card that this process has used, for metrics: it is there until the process ends.
struct KnownCard {
  std::string gpu_uuid;
  Usage usage;
  std::shared_ptr<Sensors> sensors;  // null without any
};

// A file that stays readable when it is removed from its directory. The default is none.
class OpenFile {
 public:
  OpenFile() = default;
  // A file that cannot be opened is none: the library's message about it is the better one.
  explicit OpenFile(const std::string& path) noexcept;
  ~OpenFile();
  OpenFile(OpenFile&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  OpenFile& operator=(OpenFile&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_ = -1;
};

class Card : public std::enable_shared_from_this<Card> {
 public:
  Card(std::shared_ptr<Library> library, unsigned index, std::shared_ptr<KnownCard> known, Log log);
  ~Card();
  Card(const Card&) = delete;
  Card& operator=(const Card&) = delete;

  unsigned index() const noexcept { return index_; }
  const std::shared_ptr<KnownCard>& known() const noexcept { return known_; }

  // Opens the card with an xclbin. Throws Error.
  void open(const Wish& wish);
  // True if the card has the model's own xclbin.
  bool has_xclbin_of(const Wish& wish) const;
  // The compute units that the model may use; empty if others use them, or if the card's xclbin lacks the model's kernel.
  std::vector<std::string> units_for(const Wish& wish) const;
  // How a model with these units differs from one with its own xclbin, for the log; "" if it does not.
  std::string shortfall(const Wish& wish, std::size_t units) const;
  // True if another version of the model is on the card.
  bool has_version_of(const Wish& wish) const;
  // Why the card has no units for the model: it names the models on it.
  std::string busy(const Wish& wish) const;
  // Opens a tenant's lanes. Throws Error.
  void enter(Tenant& tenant);
  void leave(Tenant& tenant) noexcept;
  // Takes out of service what an error of a slot concerns: the card after DeviceLost. Wakes the recovery.
  void report(const std::exception& error, Unit* unit) noexcept;

 private:
  void open_lane(Lane& lane, const Wish& wish);
  void close_lane(Lane& lane) noexcept;
  std::shared_ptr<Unit> unit_of(const Wish& wish, const std::string& name);
  void recover();
  bool all_lost() const noexcept;
  void release() noexcept;
  void release_hung() noexcept;
  bool reopen() noexcept;
  // Opens the device with a model's own xclbin; without a model, with the xclbin that was on it. Throws Error.
  void load(const Wish* wish);
  // The model whose own xclbin a card that was reset gets, null for the xclbin that was on it. The card gets another one if all
  // models with the old one have left, and the new one has all units in use.
  const Wish* to_load() const;
  bool fits(const Wish& wish) const;
  void notify() const noexcept;

  std::shared_ptr<Library> library_;
  const unsigned index_;
  const std::shared_ptr<KnownCard> known_;
  Log log_;
  mutable std::mutex mutex_;
  Handle device_ = nullptr;
  Xclbin contents_;  // of the xclbin on it
  OpenFile file_;    // that xclbin
  Link link_;
  std::map<std::string, std::weak_ptr<Unit>> units_;
  // units out of service that no model uses any more; they remain open, because their runs may still write to their buffers
  std::vector<std::shared_ptr<Unit>> hung_;
  std::vector<Tenant*> tenants_;
  std::string last_failure_;
  std::condition_variable wake_;
  bool lost_ = false;
  bool closing_ = false;
  std::thread medic_;
};

}  // namespace hypersonic
