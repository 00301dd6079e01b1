// SPDX-License-Identifier: Apache-2.0
// The cards that this process uses. A model version is placed on the first of these that exists, as by
// server/backends/fpga/pool.py:
//
//   1. a card whose xclbin has the model's kernel (same target, platform and digest), with compute units that are free or that
//      it may share: versions of a model share them, and models whose kernels load their weights at run time
//   2. a free card, to which its own xclbin is loaded
//   3. a card as in 1 that another version of the model uses, with other compute units or another clock than the model's own
//      xclbin has
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "card/card.hpp"

namespace hypersonic {

class Cards {
 public:
  // emulation: the emulated card's library, "" if emulated xclbins are refused.
  Cards(std::string emulation, Log log) : emulation_(std::move(emulation)), log_(std::move(log)) {}

  // Places a model version. wanted: the indices of its cards, empty for one card of any index. on_change: called when compute
  // units are lost or back. Throws Error; DeviceBusy names the models that use each card.
  std::vector<std::unique_ptr<Tenant>> place(const Wish& wish, const std::vector<unsigned>& wanted,
                                             const std::function<void()>& on_change);

 private:
  using OnChange = std::function<void()>;
  using Places = std::vector<std::shared_ptr<Card>>;

  std::unique_ptr<Tenant> anywhere(const Wish& wish, const OnChange& on_change);
  // On the first of these cards that can take the model; null, with the reasons in `busy`, if none can.
  std::unique_ptr<Tenant> join_any(const Places& cards, const Wish& wish, const OnChange& on_change, std::string& busy);
  // Null if the card has no units for the model.
  std::unique_ptr<Tenant> join(const std::shared_ptr<Card>& card, const Wish& wish, const OnChange& on_change);
  std::unique_ptr<Tenant> on_free(const Wish& wish, const OnChange& on_change, std::string& busy);
  // On a card that nobody uses.
  std::unique_ptr<Tenant> alone(unsigned index, const Wish& wish, const OnChange& on_change);
  // Null if this process does not use the card.
  std::shared_ptr<Card> open_card(unsigned index, const Wish& wish) const;
  // The card of that index, by the identity that server/backends/fpga/cards.py gives it.
  std::shared_ptr<KnownCard> known(bool emulated, unsigned index);
  std::shared_ptr<Library> library_for(bool emulated);

  std::string emulation_;
  Log log_;
  std::mutex mutex_;
  std::map<bool, std::shared_ptr<Library>> libraries_;
  std::map<std::string, std::shared_ptr<KnownCard>> known_;  // by identity
  // by (emulated, index)
  std::map<std::pair<bool, unsigned>, std::weak_ptr<Card>> cards_;
};

}  // namespace hypersonic
