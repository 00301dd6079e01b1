// SPDX-License-Identifier: Apache-2.0
// What the backend reads of the cards in a directory tree like /sys, one fact a line.
//
//   sensors SYSFS
#include "card/sensors.hpp"

#include <iostream>

int main(int, char** argv) {
  std::cout.precision(12);
  for (const std::string& address : hypersonic::card_addresses(argv[1])) {
    const hypersonic::Telemetry telemetry = hypersonic::read_telemetry(address, argv[1]);
    std::cout << address << " serial " << hypersonic::serial_number(address, argv[1]) << "\n";
    for (const auto& [sensor, celsius] : telemetry.temperatures_c) {
      std::cout << address << " celsius " << sensor << " " << celsius << "\n";
    }
    if (telemetry.power_w) {
      std::cout << address << " watts " << *telemetry.power_w << "\n";
    }
  }
}
