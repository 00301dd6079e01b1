// SPDX-License-Identifier: Apache-2.0
//
// The Verilated design of examples/ecpix5 without its PHY: frames go in and come out a byte a clock, as below an RGMII PHY, without
// preamble and checksum. Calls come from one thread.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "Vtop.h"
#include "verilated.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

struct Board {
    VerilatedContext context;
    Vtop top{&context, "board"};
    std::vector<uint8_t> frame;  // the one that is coming out
    std::vector<std::vector<uint8_t>> frames;  // complete ones
    uint64_t clocks = 0;

    void clock() {
        top.clk100 = 1;
        top.eval();
        top.clk100 = 0;
        top.eval();
        ++clocks;
        if (top.frames_source_valid) {
            frame.push_back(top.frames_source_data);
        } else if (!frame.empty()) {
            frames.push_back(std::move(frame));
            frame.clear();
        }
    }
};

EXPORT Board *board_open() {
    auto *board = new Board;
    board->top.rst_n = 0;
    for (int i = 0; i < 64; ++i) board->clock();
    board->top.rst_n = 1;
    for (int i = 0; i < 64; ++i) board->clock();
    return board;
}

EXPORT void board_close(Board *board) {
    board->top.final();
    delete board;
}

EXPORT void board_send(Board *board, const uint8_t *bytes, uint32_t count) {
    board->top.frames_sink_valid = 1;
    for (uint32_t i = 0; i < count; ++i) {
        board->top.frames_sink_data = bytes[i];
        board->clock();
    }
    board->top.frames_sink_valid = 0;
    for (int i = 0; i < 12; ++i) board->clock();  // the gap between frames
}

// The next frame, or nothing after `patience` clocks. Returns its length; `bytes` has room for 2,048.
EXPORT uint32_t board_receive(Board *board, uint8_t *bytes, uint32_t patience) {
    for (uint32_t i = 0; board->frames.empty() && i < patience; ++i) board->clock();
    if (board->frames.empty()) return 0;
    const std::vector<uint8_t> frame = std::move(board->frames.front());
    board->frames.erase(board->frames.begin());
    const uint32_t count = std::min<uint32_t>(frame.size(), 2048);
    std::copy_n(frame.begin(), count, bytes);
    return count;
}
