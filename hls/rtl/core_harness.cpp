// SPDX-License-Identifier: Apache-2.0
//
// Drives Verilated cores in bulk: rows in, rows out, stalls on both sides by a seeded generator, and the rules of a stream
// checked on every clock. The top (hls/rtl/simulate.py writes it) holds one or more cores side by side; `select` names the one
// whose streams are connected. Calls on one simulation come from one thread at a time.
//
//   x_raw --> pack --> s_axis_x --> [ core `select` ] --> m_axis_y --> unpack --> y_raw
//   weight files --> a beat a clock for all --> s_axis_w of every core
//
// As in a kernel, a core's weight streams share a port that delivers a beat a clock, with room for some beats of each behind it.
#include "Vcores.h"
#include "verilated.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#ifndef W_STREAMS
#define W_STREAMS 0  // weight streams of all cores
#endif

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// One element of a row: its bits, 1 to 64, in a beat right after those of the element before.
struct Lane {
    uint32_t width, is_signed;
};

// What one run asks for; the same fields, in the same order, in hls/rtl/simulate.py.
struct Run {
    uint64_t rows;
    uint32_t select;
    uint32_t beats_in, beats_out;  // of a row
    uint32_t stall_in, stall_out;  // of 256 clocks, how many have no valid (no ready)
    uint64_t seed;
    uint64_t clock_limit;  // stop here, rows in flight or not; 0: when every row is out
    uint64_t patience;  // clocks without a beat out after which the core is stuck
    const Lane *lanes_in, *lanes_out;  // of a row's elements
    const uint32_t *sizes_in, *sizes_out;  // elements of each beat of a row
};

enum Status : int { DONE = 0, STOPPED = 1, STUCK = 2, LAST_LOST = 3, UNSTABLE = 4, SURPLUS = 5 };

// xorshift64*: stalls that are the same in every run with the same seed
struct Random {
    uint64_t state;
    bool below(uint32_t threshold) {
        state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
        return (state * 0x2545F4914F6CDD1DULL) >> 56 < threshold;
    }
};

template <class Port> void assign(Port &port, const std::vector<uint32_t> &words) {
    port = static_cast<Port>(sizeof(Port) > 4 && words.size() > 1 ? words[0] | uint64_t{words[1]} << 32 : words[0]);
}
template <std::size_t N> void assign(VlWide<N> &port, const std::vector<uint32_t> &words) {
    for (std::size_t i = 0; i < N; ++i) port[i] = words[i];
}
template <class Port> void read(const Port &port, std::vector<uint32_t> &words) {
    words[0] = static_cast<uint32_t>(port);
    if (sizeof(Port) > 4) words[1] = static_cast<uint32_t>(uint64_t{port} >> 32);
}
template <std::size_t N> void read(const VlWide<N> &port, std::vector<uint32_t> &words) {
    for (std::size_t i = 0; i < N; ++i) words[i] = port[i];
}

void pack(const int64_t *row, uint32_t n, const Lane *lanes, std::vector<uint32_t> &words) {
    std::fill(words.begin(), words.end(), 0);
    uint64_t at = 0;
    for (uint32_t i = 0; i < n; at += lanes[i++].width) {
        const uint64_t bits = static_cast<uint64_t>(row[i]) & (~uint64_t{0} >> (64 - lanes[i].width));
        const uint64_t word = at / 32, shift = at % 32;
        words[word] |= static_cast<uint32_t>(bits << shift);
        const unsigned __int128 rest = static_cast<unsigned __int128>(bits) << shift;
        words[word + 1] |= static_cast<uint32_t>(rest >> 32);
        words[word + 2] |= static_cast<uint32_t>(rest >> 64);
    }
}

void unpack(const std::vector<uint32_t> &words, uint32_t n, const Lane *lanes, int64_t *row) {
    uint64_t at = 0;
    for (uint32_t i = 0; i < n; at += lanes[i++].width) {
        const uint64_t word = at / 32, shift = at % 32, spare = 64 - lanes[i].width;
        const unsigned __int128 wide = static_cast<unsigned __int128>(words[word + 2]) << 64 |
                                       static_cast<unsigned __int128>(words[word + 1]) << 32 | words[word];
        const uint64_t high = static_cast<uint64_t>(wide >> shift) << spare;
        row[i] = lanes[i].is_signed ? static_cast<int64_t>(high) >> spare : static_cast<int64_t>(high >> spare);
    }
}

// One weight stream: `beats` beats of 64 bytes, once after a reset or over and over; the same fields in hls/rtl/simulate.py.
struct WeightStream {
    const uint8_t *data;
    uint64_t beats;
    uint32_t repeats;
    uint32_t select;  // its core
};

constexpr uint32_t kWeightRoom = 512;  // beats that wait in front of the core

// Where a weight stream is.
struct Feed {
    WeightStream stream;
    uint64_t fetched = 0, taken = 0;
    bool shown = false;
    bool ended(uint64_t at) const { return !stream.repeats && at == stream.beats; }
    bool fetches() const { return fetched - taken < kWeightRoom && !ended(fetched); }
    const uint8_t *beat() const { return stream.data + 64 * (taken % stream.beats); }
};

// The next beat of a row.
struct Place {
    uint32_t beats;
    const uint32_t *sizes;
    const Lane *first;
    const Lane *lane = first;
    uint32_t beat = 0;
    uint32_t size() const { return sizes[beat]; }
    bool ends() const { return beat + 1 == beats; }
    // Advances to the next beat; returns the number of rows that this ends.
    uint32_t step() {
        lane += size();
        if (++beat < beats) return 0;
        beat = 0, lane = first;
        return 1;
    }
};

struct Simulation {
    Simulation(const char *memories, const WeightStream *streams, uint32_t count) {
        for (uint32_t i = 0; i < count; ++i) feeds.push_back({streams[i]});
        const std::string argument = std::string("+memories=") + memories;
        const char *arguments[] = {"core", argument.c_str()};
        context->commandArgs(2, arguments);  // before `initial` blocks read it, at the first eval
    }

    std::unique_ptr<VerilatedContext> context{new VerilatedContext};
    std::unique_ptr<Vcores> top{new Vcores{context.get()}};
    // three words more than the port: pack and unpack access them without a bounds check
    std::vector<uint32_t> x_words = std::vector<uint32_t>(X_BITS / 32 + 4), y_words = std::vector<uint32_t>(Y_BITS / 32 + 4);
    std::vector<uint32_t> held;
    std::vector<Feed> feeds;
    std::size_t turn = 0;

    void clock() {
        top->clk = 1;
        top->eval();
        top->clk = 0;
        top->eval();
    }

    void reset() {
        top->rst_n = 0;
        top->s_axis_x_tvalid = 0;
        top->m_axis_y_tready = 0;
        for (int i = 0; i < 4; ++i) clock();
        top->rst_n = 1;
        for (Feed &feed : feeds) feed = {feed.stream};
        top->eval();
        load();
    }

    // The weights that are loaded once, so that the clocks of a run are those of its rows.
    void load() {
        Random never{1};
        const auto loading = [](const Feed &feed) { return !feed.stream.repeats && !feed.ended(feed.taken); };
        for (uint64_t idle = 0; idle < 4096 && std::any_of(feeds.begin(), feeds.end(), loading); ++idle) {
            show_weights(never, 0);
            top->eval();
            if (take_weights()) idle = 0;
            clock();
        }
    }

#if W_STREAMS > 0
    void show_weights(Random &stalls, uint32_t stall) {
        for (std::size_t i = 0; i < feeds.size(); ++i) {  // one beat a clock, in turn
            Feed &feed = feeds[(turn + i) % feeds.size()];
            if (!feed.fetches() || (feed.stream.repeats && feed.stream.select != top->select)) continue;
            ++feed.fetched;
            turn = (turn + i + 1) % feeds.size();
            break;
        }
        uint64_t valid = 0;
        for (std::size_t i = 0; i < feeds.size(); ++i) {
            Feed &feed = feeds[i];
            if (!feed.shown && feed.fetched > feed.taken && !stalls.below(stall)) {
                feed.shown = true;
                std::memcpy(&top->s_axis_w_tdata[16 * i], feed.beat(), 64);
            }
            valid |= uint64_t{feed.shown} << i;
        }
        assign(top->s_axis_w_tvalid, {static_cast<uint32_t>(valid), static_cast<uint32_t>(valid >> 32)});
    }

    // Return whether any beat is taken at the next clock edge.
    bool take_weights() {
        const uint64_t taken = uint64_t{top->s_axis_w_tvalid} & uint64_t{top->s_axis_w_tready};
        for (std::size_t i = 0; i < feeds.size(); ++i)
            if (taken >> i & 1) ++feeds[i].taken, feeds[i].shown = false;
        return taken != 0;
    }
#else
    void show_weights(Random &, uint32_t) {}
    bool take_weights() { return false; }
#endif

    int run(const Run &run, const int64_t *x, int64_t *y, uint64_t *rows_out, uint64_t *clocks) {
        Random stalls{run.seed | 1};
        std::vector<bool> last(run.rows);
        Place in{run.beats_in, run.sizes_in, run.lanes_in}, out{run.beats_out, run.sizes_out, run.lanes_out};
        uint64_t sent = 0, got = 0, idle = 0;
        bool offered = false, was_held = false;
        top->select = run.select;
        int status = DONE;
        for (*clocks = 0; got < run.rows; ++*clocks) {
            if (run.clock_limit && *clocks == run.clock_limit) { status = STOPPED; break; }
            if (++idle > run.patience) { status = STUCK; break; }
            // a beat once offered stays until it is taken
            if (!offered && sent < run.rows && !stalls.below(run.stall_in)) {
                offered = true;
                if (in.beat == 0) last[sent] = sent + 1 == run.rows || stalls.below(32);
                pack(x, in.size(), in.lane, x_words);
                assign(top->s_axis_x_tdata, x_words);
                top->s_axis_x_tlast = in.ends() && last[sent];
            }
            top->s_axis_x_tvalid = offered;
            top->m_axis_y_tready = !stalls.below(run.stall_out);
            show_weights(stalls, run.stall_in);
            top->eval();
            if (was_held && !still_held()) { status = UNSTABLE; break; }
            was_held = top->m_axis_y_tvalid && !top->m_axis_y_tready;
            if (was_held) hold();
            if (top->m_axis_y_tvalid && top->m_axis_y_tready) {
                if (got == sent && in.beat == 0) { status = SURPLUS; break; }
                if (top->m_axis_y_tlast != (out.ends() && last[got])) { status = LAST_LOST; break; }
                read(top->m_axis_y_tdata, y_words);
                unpack(y_words, out.size(), out.lane, y);
                y += out.size();
                got += out.step();
                idle = 0;
            }
            if (offered && top->s_axis_x_tready) {
                x += in.size();
                sent += in.step();
                offered = false;
            }
            take_weights();
            clock();
        }
        top->s_axis_x_tvalid = 0;
        top->m_axis_y_tready = 0;
        top->eval();
        *rows_out = got;
        return status;
    }

    void hold() {
        read(top->m_axis_y_tdata, y_words);
        held = y_words;
        held.back() = top->m_axis_y_tlast;
    }

    bool still_held() {
        read(top->m_axis_y_tdata, y_words);
        const uint32_t spare = y_words.back();
        y_words.back() = top->m_axis_y_tlast;
        const bool same = top->m_axis_y_tvalid && y_words == held;
        y_words.back() = spare;
        return same;
    }
};

}  // namespace

// memories: the directory of the files that the cores read; streams: of all cores in turn; their data must stay in place
EXPORT Simulation *hypersonic_core_open(const char *memories, const WeightStream *streams, uint32_t count) {
    auto *simulation = new Simulation(memories, streams, count);
    simulation->top->clk = 0;
    simulation->reset();
    return simulation;
}

EXPORT void hypersonic_core_close(Simulation *simulation) {
    simulation->top->final();
    delete simulation;
}

EXPORT void hypersonic_core_reset(Simulation *simulation) { simulation->reset(); }

EXPORT int hypersonic_core_run(Simulation *simulation, const Run *run, const int64_t *x_raw, int64_t *y_raw,
                               uint64_t *rows_out, uint64_t *clocks) {
    return simulation->run(*run, x_raw, y_raw, rows_out, clocks);
}
