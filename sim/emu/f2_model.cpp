// SPDX-License-Identifier: Apache-2.0
// An AWS F2 card with the interface of device_model.h: the Verilated custom logic (class Vf2, module hypersonic_f2) between
// the shell's OCL master and the shell's PCIM memory (pcim_shell.h). One model is one card: register offsets are offsets in
// BAR0, and memory addresses are physical addresses of the host. sim/card/f2.py writes "kernel_name.h".
//
// Each clock: sample the outputs of both sides, rising edge, set the design's new inputs, falling edge.
#include <array>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>

#include "Vf2.h"
#include "axi_memory.h"
#include "device_model.h"
#include "kernel_name.h"
#include "memories.h"
#include "pcim_shell.h"
#include "verilated.h"

namespace {

constexpr unsigned kResetClocks = 16;
constexpr uint32_t kPollClocks = 32;
constexpr uint32_t kWindowBytes = 1u << 26;
constexpr unsigned kIrqs = 16;

}  // namespace

struct hypersonic_model {
    hypersonic_model(const hypersonic_memory &memory, const hypersonic_timing &timing)
        : memory_(memory), reads_(memory, timing), writes_(memory, timing), context_(new VerilatedContext),
          top_(new Vf2(context_.get(), "f2")) {
        top_->rst_n = 0;
        {
            const emu::ExtractedMemories memories(*context_);  // `initial` blocks read the files at the first eval
            top_->eval();
        }
        for (unsigned i = 0; i < kResetClocks; ++i) clock();
        top_->rst_n = 1;
        for (unsigned i = 0; i < kResetClocks; ++i) clock();  // the end of the reset crosses some registers
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
        top_->ocl_awaddr = offset & (kWindowBytes - 1);
        top_->ocl_awvalid = 1;
        top_->ocl_wdata = value;
        top_->ocl_wstrb = 0xf;
        top_->ocl_wvalid = 1;
        top_->ocl_bready = 1;
        top_->eval();
        for (unsigned i = 0; i < emu::kPatienceClocks; ++i) {
            const bool address_taken = top_->ocl_awvalid && top_->ocl_awready;
            const bool data_taken = top_->ocl_wvalid && top_->ocl_wready;
            const bool answered = top_->ocl_bvalid;
            const int response = top_->ocl_bresp;
            clock();
            if (address_taken) top_->ocl_awvalid = 0;
            if (data_taken) top_->ocl_wvalid = 0;
            if (answered) top_->ocl_bready = 0;
            top_->eval();
            if (answered) return response == emu::kOkay ? 0 : -1;
        }
        return unanswered("write", offset);
    }

    int read(uint32_t offset, uint32_t *value) {
        top_->ocl_araddr = offset & (kWindowBytes - 1);
        top_->ocl_arvalid = 1;
        top_->ocl_rready = 1;
        top_->eval();
        for (unsigned i = 0; i < emu::kPatienceClocks; ++i) {
            const bool address_taken = top_->ocl_arvalid && top_->ocl_arready;
            const bool answered = top_->ocl_rvalid;
            const int response = top_->ocl_rresp;
            *value = top_->ocl_rdata;
            clock();
            if (address_taken) top_->ocl_arvalid = 0;
            if (answered) top_->ocl_rready = 0;
            top_->eval();
            if (answered) return response == emu::kOkay ? 0 : -1;
        }
        return unanswered("read", offset);
    }

private:
    void clock() {
        Vf2 &f = *top_;
        const bool arvalid = f.pcim_arvalid;
        const bool rready = f.pcim_rready;
        const uint16_t arid = f.pcim_arid;
        const emu::Address ar{f.pcim_araddr, f.pcim_arlen, f.pcim_arsize, f.pcim_arburst, 0};
        const uint16_t irq_req = f.irq_req;
        const emu::Address aw{f.pcim_awaddr, f.pcim_awlen, f.pcim_awsize, f.pcim_awburst, 0};
        if (f.rst_n)
            writes_.clock(now_, f.pcim_awvalid, aw, f.pcim_awid, f.pcim_wvalid, f.pcim_wstrb, f.pcim_wlast,
                          f.pcim_wdata.data(), f.pcim_bready);
        f.clk = 1;
        f.eval();
        if (f.rst_n) {
            reads_.clock(now_, arvalid, ar, arid, rready, f.pcim_rdata.data());
            interrupts(irq_req);
        }
        f.pcim_arready = reads_.arready;
        f.pcim_rvalid = reads_.rvalid;
        f.pcim_rlast = reads_.rlast;
        f.pcim_rid = reads_.rid;
        f.pcim_rresp = reads_.rresp;
        f.pcim_awready = writes_.shown().awready;
        f.pcim_wready = writes_.shown().wready;
        f.pcim_bvalid = writes_.shown().bvalid;
        f.pcim_bid = writes_.bid();
        f.pcim_bresp = writes_.shown().bresp;
        f.clk = 0;
        f.eval();
        ++now_;
    }

    void interrupts(uint16_t request) {
        uint16_t ack = 0;
        for (unsigned i = 0; i < kIrqs; ++i) {
            if (!irqs_[i].clock(request >> i & 1)) memory_.fault(memory_.card, "an interrupt was requested before the last one was acknowledged");
            ack |= static_cast<uint16_t>(irqs_[i].ack << i);
        }
        top_->irq_ack = ack;
    }

    int unanswered(const char *verb, uint32_t offset) {
        char text[128];
        std::snprintf(text, sizeof text, "ocl: %s at 0x%x not answered within 8 us", verb, offset);
        memory_.fault(memory_.card, text);
        return -1;
    }

    hypersonic_memory memory_;
    emu::PcimReads reads_;
    emu::PcimWrites writes_;
    std::array<emu::IrqLine, kIrqs> irqs_;
    uint64_t now_ = 0;
    std::unique_ptr<VerilatedContext> context_;
    std::unique_ptr<Vf2> top_;
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
    HYPERSONIC_DEVICE_MODEL_ABI, sizeof(hypersonic_device_model_api), "f2_emu", kKernelName, kPollClocks, kPatienceClocks,
    create, destroy, write, read, advance, clocks,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const hypersonic_device_model_api *hypersonic_device_model(void) {
    return &kApi;
}
