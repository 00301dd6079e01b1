// SPDX-License-Identifier: Apache-2.0
// The cards that this process uses. A model version is placed on the first of these that exists: a card whose xclbin is its
// own, with compute units that are free or that it may share; a free card, to which its xclbin is loaded.
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
  std::unique_ptr<Tenant> anywhere(const Wish& wish, const std::function<void()>& on_change);
  // Returns null, with the reason in `busy`, if others use the card.
  std::unique_ptr<Tenant> try_card(unsigned index, const Wish& wish, const std::function<void()>& on_change, std::string& busy);
  std::shared_ptr<Library> library_for(bool emulated);

  std::string emulation_;
  Log log_;
  std::mutex mutex_;
  std::map<bool, std::shared_ptr<Library>> libraries_;
  // by (emulated, index)
  std::map<std::pair<bool, unsigned>, std::weak_ptr<Card>> cards_;
};

}  // namespace hypersonic
