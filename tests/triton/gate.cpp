// SPDX-License-Identifier: Apache-2.0
// Transfers of models through a Gate, on threads. It prints what went wrong.
//
//   gate ROUNDS
#include "card/gate.hpp"

#include <atomic>
#include <chrono>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

using hypersonic::Gate;
using namespace std::chrono_literals;

namespace {

const char kModels[] = {'a', 'b', 'c'};
int wrong = 0;

void expect(bool right, const std::string& what) {
  if (!right) {
    ++wrong;
    std::cout << what << "\n";
  }
}

// A transfer on a thread, in flight from when it has a place until end().
class Transfer {
 public:
  Transfer(Gate& gate, const char& model)
      : thread_([this, &gate, &model] {
          const Gate::Pass pass(gate, &model);
          begun = true;
          while (!ended_) {
            std::this_thread::yield();
          }
        }) {}
  void end() {
    ended_ = true;
    thread_.join();
  }
  void wait() const {
    while (!begun) {
      std::this_thread::sleep_for(1ms);
    }
  }

  std::atomic<bool> begun{false};

 private:
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

void wait_until_waiting(const Gate& gate, std::size_t count) {
  while (gate.waiting() != count) {
    std::this_thread::sleep_for(1ms);
  }
}

// Model a has both places and two transfers that wait; b and c come later, and
// are next.
void models_that_compete_have_a_place_each() {
  Gate gate;
  Transfer first(gate, kModels[0]);
  Transfer second(gate, kModels[0]);
  first.wait();
  second.wait();
  Transfer third(gate, kModels[0]);
  wait_until_waiting(gate, 1);
  Transfer fourth(gate, kModels[0]);
  wait_until_waiting(gate, 2);
  Transfer other(gate, kModels[1]);
  wait_until_waiting(gate, 3);
  Transfer last(gate, kModels[2]);
  wait_until_waiting(gate, 4);
  first.end();
  other.wait();
  expect(!third.begun && !fourth.begun && !last.begun, "the place of a's first transfer is for b");
  second.end();
  third.wait();
  expect(!fourth.begun && !last.begun, "a has none in flight, and waits longer than c");
  other.end();
  last.wait();
  expect(!fourth.begun, "the place of b's transfer is for c");
  third.end();
  fourth.wait();
  last.end();
  fourth.end();
}

void two_are_in_flight_and_all_are_served(int rounds) {
  Gate gate;
  std::atomic<int> in_flight{0};
  std::atomic<int> most{0};
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < 8; ++number) {
    threads.emplace_back([&, &model = kModels[number % 3]] {
      for (int round = 0; round < rounds; ++round) {
        const Gate::Pass pass(gate, &model);
        const int now = ++in_flight;
        for (int before = most; now > before && !most.compare_exchange_weak(before, now);) {
        }
        std::this_thread::yield();
        --in_flight;
        ++done;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  expect(most == 2, "at most " + std::to_string(most) + " were in flight, expected 2");
  expect(done == 8 * rounds, "not all were served");
}

}  // namespace

int main(int, char** argv) {
  models_that_compete_have_a_place_each();
  two_are_in_flight_and_all_are_served(std::stoi(argv[1]));
  std::cout << wrong << " wrong\n";
  return wrong != 0 ? 1 : 0;
}
