// SPDX-License-Identifier: Apache-2.0
// hw_emu with the interface of device_model.h: one Verilated kernel (class Vkernel) between an AXI4-Lite master and an AXI4
// memory. sim/card/simulator.py writes "kernel_name.h".
//
// Each clock: sample the outputs of both sides, rising edge, set the kernel's new inputs, falling edge. This model registers
// all inputs of the kernel, so each is stable at every rising edge.
#include <cstdio>
#include <exception>
#include <memory>
#include <new>

#include "Vkernel.h"
#include "axi_memory.h"
#include "device_model.h"
#include "kernel_name.h"
#include "memories.h"
#include "verilated.h"

namespace {

constexpr unsigned kResetClocks = 16;
constexpr unsigned kRegisterTimeoutClocks = 4096;
constexpr uint32_t kPollClocks = 32;

}  // namespace

struct hypersonic_model {
    hypersonic_model(const hypersonic_memory &memory, const hypersonic_timing &timing)
        : memory_(memory), reads_(memory, timing), writes_(memory, timing), context_(new VerilatedContext),
          top_(new Vkernel(context_.get(), "kernel")) {
        top_->ap_rst_n = 0;
        {
            const emu::ExtractedMemories memories(*context_);  // `initial` blocks read the files at the first eval
            top_->eval();
        }
        for (unsigned i = 0; i < kResetClocks; ++i) edge();
        top_->ap_rst_n = 1;
        edge();
    }

    ~hypersonic_model() { top_->final(); }
    hypersonic_model(const hypersonic_model &) = delete;
    hypersonic_model &operator=(const hypersonic_model &) = delete;

    uint64_t advance(uint32_t clocks) {
        for (uint32_t i = 0; i < clocks; ++i) clock();
        return reads_.beats() + writes_.beats();
    }

    uint64_t clocks() const { return now_; }

    int write(uint32_t offset, uint32_t value) {
        top_->s_axi_control_awaddr = offset & 0xfff;
        top_->s_axi_control_awvalid = 1;
        top_->s_axi_control_wdata = value;
        top_->s_axi_control_wstrb = 0xf;
        top_->s_axi_control_wvalid = 1;
        top_->s_axi_control_bready = 1;
        settle();
        for (unsigned i = 0; i < kRegisterTimeoutClocks; ++i) {
            const bool address_taken = top_->s_axi_control_awvalid && top_->s_axi_control_awready;
            const bool data_taken = top_->s_axi_control_wvalid && top_->s_axi_control_wready;
            const bool answered = top_->s_axi_control_bvalid;
            const int response = top_->s_axi_control_bresp;
            clock();
            if (address_taken) top_->s_axi_control_awvalid = 0;
            if (data_taken) top_->s_axi_control_wvalid = 0;
            if (answered) top_->s_axi_control_bready = 0;
            settle();
            if (answered) return response == emu::kOkay ? 0 : -1;
        }
        return unanswered("write", offset);
    }

    int read(uint32_t offset, uint32_t *value) {
        top_->s_axi_control_araddr = offset & 0xfff;
        top_->s_axi_control_arvalid = 1;
        top_->s_axi_control_rready = 1;
        settle();
        for (unsigned i = 0; i < kRegisterTimeoutClocks; ++i) {
            const bool address_taken = top_->s_axi_control_arvalid && top_->s_axi_control_arready;
            const bool answered = top_->s_axi_control_rvalid;
            const int response = top_->s_axi_control_rresp;
            *value = top_->s_axi_control_rdata;
            clock();
            if (address_taken) top_->s_axi_control_arvalid = 0;
            if (answered) top_->s_axi_control_rready = 0;
            settle();
            if (answered) return response == emu::kOkay ? 0 : -1;
        }
        return unanswered("read", offset);
    }

private:
    // Updates the combinational logic after inputs have changed between two edges.
    void settle() { top_->eval(); }

    void edge() {
        top_->ap_clk = 1;
        top_->eval();
        top_->ap_clk = 0;
        top_->eval();
    }

    void clock() {
        Vkernel &k = *top_;
        const bool arvalid = k.m_axi_gmem0_arvalid;
        const bool rready = k.m_axi_gmem0_rready;
        const emu::Address ar{k.m_axi_gmem0_araddr, k.m_axi_gmem0_arlen, k.m_axi_gmem0_arsize, k.m_axi_gmem0_arburst,
                              k.m_axi_gmem0_arid};
        const bool awvalid = k.m_axi_gmem1_awvalid;
        const bool wvalid = k.m_axi_gmem1_wvalid;
        const bool bready = k.m_axi_gmem1_bready;
        const emu::Address aw{k.m_axi_gmem1_awaddr, k.m_axi_gmem1_awlen, k.m_axi_gmem1_awsize, k.m_axi_gmem1_awburst,
                              k.m_axi_gmem1_awid};
        // The write channel samples W data itself, so it must step before the edge changes them; the read channel must not
        // change R data before the kernel has taken them at the edge.
        writes_.clock(now_, awvalid, aw, wvalid, k.m_axi_gmem1_wstrb, k.m_axi_gmem1_wlast, k.m_axi_gmem1_wdata.data(), bready);
        k.ap_clk = 1;
        k.eval();
        reads_.clock(now_, arvalid, ar, rready, k.m_axi_gmem0_rdata.data());
        k.m_axi_gmem0_arready = reads_.arready;
        k.m_axi_gmem0_rvalid = reads_.rvalid;
        k.m_axi_gmem0_rlast = reads_.rlast;
        k.m_axi_gmem0_rid = reads_.rid;
        k.m_axi_gmem0_rresp = reads_.rresp;
        k.m_axi_gmem1_awready = writes_.awready;
        k.m_axi_gmem1_wready = writes_.wready;
        k.m_axi_gmem1_bvalid = writes_.bvalid;
        k.m_axi_gmem1_bid = writes_.bid;
        k.m_axi_gmem1_bresp = writes_.bresp;
        k.ap_clk = 0;
        k.eval();
        ++now_;
    }

    int unanswered(const char *verb, uint32_t offset) {
        char text[128];
        std::snprintf(text, sizeof text, "s_axi_control: %s at 0x%x not answered within %u clocks", verb, offset,
                      kRegisterTimeoutClocks);
        memory_.fault(memory_.card, text);
        return -1;
    }

    hypersonic_memory memory_;
    emu::ReadChannel reads_;
    emu::WriteChannel writes_;
    uint64_t now_ = 0;
    std::unique_ptr<VerilatedContext> context_;
    std::unique_ptr<Vkernel> top_;
};

namespace {

hypersonic_model *create(const hypersonic_memory *memory, const hypersonic_timing *timing) {
    try {
        return new hypersonic_model(*memory, *timing);
    } catch (const std::bad_alloc &) {
        return nullptr;
    } catch (const std::exception &error) {
        memory->fault(memory->card, error.what());
        return nullptr;
    }
}

void destroy(hypersonic_model *model) { delete model; }
int write(hypersonic_model *model, uint32_t offset, uint32_t value) { return model->write(offset, value); }
int read(hypersonic_model *model, uint32_t offset, uint32_t *value) { return model->read(offset, value); }
uint64_t advance(hypersonic_model *model, uint32_t clocks) { return model->advance(clocks); }
uint64_t clocks(const hypersonic_model *model) { return model->clocks(); }

const hypersonic_device_model_api kApi = {
    HYPERSONIC_DEVICE_MODEL_ABI, sizeof(hypersonic_device_model_api), "hw_emu", kKernelName, kPollClocks, kPatienceClocks,
    create, destroy, write, read, advance, clocks,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const hypersonic_device_model_api *hypersonic_device_model(void) {
    return &kApi;
}
