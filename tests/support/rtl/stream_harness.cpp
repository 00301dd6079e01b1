// SPDX-License-Identifier: Apache-2.0
//
// Drives stream modules in bulk: sends and receives beats with stalls on both sides from a seeded generator, and checks the
// rules of a stream in every clock. The top, which tests/support/rtl/stream_bench.py writes, has several instances side by side; `select`
// names the one whose streams are connected. Every port is as wide as the widest, in 32-bit words.
//
//   x[0], x[1] --> s_axis --> [ instance `select` ] --> m_axis --> y
#include "Vduts.h"
#include "verilated.h"

#include <cstdint>
#include <cstring>
#include <memory>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int INPUTS = 2, X = X_WORDS, Y = Y_WORDS;

// The parameters of one run; tests/support/rtl/stream_bench.py has the same fields in the same order.
struct Run {
    uint64_t beats[INPUTS];
    uint64_t results;  // expected results: stop `drain` clocks after the last of them, if every beat has been taken
    uint64_t drain;
    uint64_t clock_limit;  // stop after so many clocks, also with beats in flight; 0: no limit
    uint64_t seed;
    uint32_t select;
    uint32_t stall_in, stall_out;  // clocks of 256, on average, without valid and without ready
};

struct Beats {
    const uint32_t *data[INPUTS];
    const uint8_t *last[INPUTS];
    uint32_t *results;
    uint8_t *results_last;
    uint64_t *results_clock;
};

enum Status : int { DONE = 0, STOPPED = 1, STUCK = 2, UNSTABLE = 3, SURPLUS = 4 };

// xorshift64*; a seed always gives the same stalls
struct Random {
    uint64_t state;
    bool below(uint32_t threshold) {
        if (!threshold) return false;
        state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
        return (state * 0x2545F4914F6CDD1DULL) >> 56 < threshold;
    }
};

struct Simulation {
    std::unique_ptr<VerilatedContext> context{new VerilatedContext};
    std::unique_ptr<Vduts> top;
    uint32_t held[Y + 1];

    explicit Simulation(int seed) {
        context->randSeed(seed);
        context->randReset(2);  // registers and memories start with random bits
        const char* none[] = {"bench"};
        context->commandArgs(1, none);  // without +memories, rf_rom reads files in the working directory
        top.reset(new Vduts{context.get()});
    }

    void clock() {
        top->clk = 1;
        top->eval();
        top->clk = 0;
    }

    void reset(int clocks) {
        top->rst_n = 0;
        top->clk = 0;
        top->s_tvalid = 0;
        top->m_tready = 0;
        top->eval();
        for (int i = 0; i < clocks; ++i) clock();
        top->rst_n = 1;
        top->eval();
    }

    int run(const Run &run, const Beats &beats, uint64_t *results, uint64_t *clocks) {
        Random stalls{run.seed * 2 + 1};
        uint64_t sent[INPUTS] = {}, got = 0, idle = 0, drained = 0;
        bool offered[INPUTS] = {}, was_held = false;
        int status = DONE;
        top->select = run.select;
        for (*clocks = 0;; ++*clocks) {
            const bool all_sent = sent[0] == run.beats[0] && sent[1] == run.beats[1];
            if (all_sent && got == run.results && drained++ == run.drain) break;
            if (run.clock_limit && *clocks == run.clock_limit) { status = STOPPED; break; }
            if (++idle > 100000) { status = STUCK; break; }
            for (int i = 0; i < INPUTS; ++i) {
                // a beat stays on offer until it is taken
                if (offered[i] || sent[i] == run.beats[i] || stalls.below(run.stall_in)) continue;
                offered[i] = true;
                std::memcpy(&top->s_tdata[i * X], beats.data[i] + sent[i] * X, X * sizeof(uint32_t));
                top->s_tlast = (top->s_tlast & ~(1 << i)) | beats.last[i][sent[i]] << i;
            }
            top->s_tvalid = offered[0] | offered[1] << 1;
            top->m_tready = !stalls.below(run.stall_out);
            top->eval();
            if (was_held && !(top->m_tvalid && same())) { status = UNSTABLE; break; }
            was_held = top->m_tvalid && !top->m_tready;
            if (was_held) hold();
            if (top->m_tvalid && top->m_tready) {
                if (got == run.results) { status = SURPLUS; break; }
                std::memcpy(beats.results + got * Y, &top->m_tdata[0], Y * sizeof(uint32_t));
                beats.results_clock[got] = *clocks;
                beats.results_last[got++] = top->m_tlast;
                idle = 0;
            }
            for (int i = 0; i < INPUTS; ++i) {
                if (offered[i] && (top->s_tready >> i & 1)) ++sent[i], offered[i] = false;
            }
            clock();
        }
        top->s_tvalid = 0;
        top->m_tready = 0;
        top->eval();
        *results = got;
        return status;
    }

    void hold() {
        std::memcpy(held, &top->m_tdata[0], Y * sizeof(uint32_t));
        held[Y] = top->m_tlast;
    }

    bool same() { return !std::memcmp(held, &top->m_tdata[0], Y * sizeof(uint32_t)) && held[Y] == top->m_tlast; }
};

}  // namespace

EXPORT Simulation *stream_bench_open(int seed) {
    auto *simulation = new Simulation{seed};
    simulation->reset(4);
    return simulation;
}

EXPORT void stream_bench_close(Simulation *simulation) {
    simulation->top->final();
    delete simulation;
}

EXPORT void stream_bench_reset(Simulation *simulation, int clocks) { simulation->reset(clocks); }

EXPORT int stream_bench_run(Simulation *simulation, const Run *run, const Beats *beats, uint64_t *results, uint64_t *clocks) {
    return simulation->run(*run, *beats, results, clocks);
}
