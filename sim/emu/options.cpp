// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <sys/stat.h>

#include <cstdlib>
#include <vector>

#include "error.h"

namespace emu {

namespace {

constexpr unsigned kDefaultDevices = 4;
constexpr uint64_t kDefaultLoadMs = 2000;
constexpr uint64_t kMaxLoadMs = 3'600'000;

struct Pair {
    std::string name;
    uint64_t value;
};

std::string variable(const char *name) {
    const char *value = std::getenv(name);
    return value != nullptr ? value : "";
}

uint64_t number(const char *variable_name, const std::string &text) {
    char *end = nullptr;
    const unsigned long long value = std::strtoull(text.c_str(), &end, 10);
    if (text.empty() || *end != '\0') throw Error(EINVAL, std::string(variable_name) + ": '" + text + "' is not a number");
    return value;
}

std::vector<Pair> pairs(const char *variable_name, char separator) {
    std::vector<Pair> found;
    const std::string text = variable(variable_name);
    for (size_t begin = 0; begin < text.size();) {
        size_t end = text.find(',', begin);
        if (end == std::string::npos) end = text.size();
        const std::string item = text.substr(begin, end - begin);
        const size_t middle = item.rfind(separator);
        if (middle == std::string::npos)
            throw Error(EINVAL, std::string(variable_name) + ": '" + item + "' is not NAME" + separator + "NUMBER");
        found.push_back({item.substr(0, middle), number(variable_name, item.substr(middle + 1))});
        begin = end + 1;
    }
    return found;
}

uint64_t first_wrong(const std::string &what) {
    for (const Pair &pair : pairs("HYPERSONIC_EMU_WRONG", ':'))
        if (pair.name == what) return pair.value;
    return 0;
}

double rate(const char *name) {
    const std::string text = variable(name);
    const uint64_t rate = text.empty() ? 0 : number(name, text);
    if (rate > 1'000'000) throw Error(EINVAL, std::string(name) + ": '" + text + "', expected at most 1000000 MB/s, or 0 for no limit");
    return static_cast<double>(rate);
}

}  // namespace

unsigned device_count() {
    constexpr const char *kName = "HYPERSONIC_EMU_DEVICES";
    const std::string text = variable(kName);
    return text.empty() ? kDefaultDevices : static_cast<unsigned>(number(kName, text));
}

hypersonic_timing memory_timing() {
    constexpr const char *kName = "HYPERSONIC_EMU_MEMORY";
    if (variable(kName) == "ideal") return {0, 0, 256, 0, 1};
    hypersonic_timing timing{60, 60, 64, 0, 1};
    for (const Pair &pair : pairs(kName, '=')) {
        const auto value = static_cast<uint32_t>(pair.value);
        if (pair.name == "latency")
            timing.read_latency_clocks = timing.write_latency_clocks = value;
        else if (pair.name == "outstanding" && value >= 1 && value <= 256)
            timing.outstanding = value;
        else if (pair.name == "stall" && value <= 90)
            timing.stall_percent = value;
        else if (pair.name == "seed")
            timing.seed = value;
        else
            throw Error(EINVAL, std::string(kName) + ": '" + pair.name + "=" + std::to_string(value) +
                                    "', expected ideal or latency=CLOCKS,outstanding=1..256,stall=0..90,seed=N");
    }
    return timing;
}

uint64_t hang_at_run(const std::string &compute_unit, unsigned card) {
    for (const Pair &pair : pairs("HYPERSONIC_EMU_HANG", ':'))
        if (pair.name == compute_unit || pair.name == compute_unit + "@" + std::to_string(card)) return pair.value;
    return 0;
}

WrongAnswers wrong_answers(const std::string &compute_unit) {
    return {first_wrong(compute_unit), first_wrong(compute_unit + "/queued")};
}

uint64_t wrong_from_copy() { return first_wrong("memory"); }

LinkRates pcie_rates() { return {rate("HYPERSONIC_EMU_PCIE_MB_S"), rate("HYPERSONIC_EMU_PCIE_TRANSFER_MB_S")}; }

std::chrono::milliseconds load_time() {
    constexpr const char *kName = "HYPERSONIC_EMU_LOAD_MS";
    const std::string text = variable(kName);
    const uint64_t ms = text.empty() ? kDefaultLoadMs : number(kName, text);
    if (ms > kMaxLoadMs) throw Error(EINVAL, std::string(kName) + ": '" + text + "', expected at most " + std::to_string(kMaxLoadMs) + " ms");
    return std::chrono::milliseconds(ms);
}

std::string cards_directory() { return variable("HYPERSONIC_EMU_CARDS"); }

CardEvents card_events(const std::string &directory, unsigned card) {
    if (directory.empty()) return {false, 0};
    const std::string name = directory + "/" + std::to_string(card);
    struct stat file{};
    const bool unplugged = stat((name + ".unplugged").c_str(), &file) == 0;
    const bool reset = stat((name + ".resets").c_str(), &file) == 0;
    return {unplugged, reset ? static_cast<uint64_t>(file.st_size) : 0};
}

}  // namespace emu
