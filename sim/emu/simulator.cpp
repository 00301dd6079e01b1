// SPDX-License-Identifier: Apache-2.0
#include "simulator.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "error.h"

namespace emu {

namespace {

[[noreturn]] void foreign(const std::string &what) { throw Error(EINVAL, "Invalid xclbin: BITSTREAM is not a simulator for this machine: " + what); }

// dlopen does not check an ELF file, and loading a truncated one ends the process (SIGBUS). So sizes are checked here first.
void check_elf(std::span<const uint8_t> image) {
    Elf64_Ehdr head;
    if (image.size() < sizeof head || std::memcmp(image.data(), ELFMAG, SELFMAG) != 0)
        foreign("it is not an ELF file (" + std::to_string(image.size()) + " bytes)");
    std::memcpy(&head, image.data(), sizeof head);
    if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_ident[EI_DATA] != ELFDATA2LSB || head.e_type != ET_DYN)
        foreign("it is not a 64-bit shared library");
    const uint64_t table_bytes = uint64_t{head.e_phnum} * sizeof(Elf64_Phdr);
    if (head.e_phentsize != sizeof(Elf64_Phdr) || head.e_phoff > image.size() || table_bytes > image.size() - head.e_phoff)
        foreign("it is truncated");
    for (unsigned i = 0; i < head.e_phnum; ++i) {
        Elf64_Phdr segment;
        std::memcpy(&segment, image.data() + head.e_phoff + i * sizeof segment, sizeof segment);
        if (segment.p_offset > image.size() || segment.p_filesz > image.size() - segment.p_offset) foreign("it is truncated");
    }
}

class Descriptor {
public:
    explicit Descriptor(int number) : number_(number) {}
    ~Descriptor() {
        if (number_ >= 0) close(number_);
    }
    Descriptor(const Descriptor &) = delete;
    Descriptor &operator=(const Descriptor &) = delete;
    int number() const { return number_; }

private:
    int number_;
};

// dlopen returns the library that it has loaded already for an equal path, and a library may stay loaded after dlclose. So
// each load spells the path differently: with one "/." or "/" per bit of a running number.
std::string unique_path(int descriptor) {
    static std::atomic<uint32_t> loads{0};
    std::string path = "/proc/self/fd";
    for (uint32_t bits = ++loads; bits != 0; bits >>= 1) path += bits & 1 ? "/." : "/";
    return path + "/" + std::to_string(descriptor);
}

void *load(std::span<const uint8_t> image) {
    const Descriptor file(memfd_create("hypersonic_simulator", MFD_CLOEXEC));
    if (file.number() < 0) throw Error(errno, std::string("Failed to load the simulator: memfd_create: ") + std::strerror(errno));
    for (size_t done = 0; done < image.size();) {
        const ssize_t written = ::write(file.number(), image.data() + done, image.size() - done);
        if (written < 0 && errno != EINTR) throw Error(errno, std::string("Failed to load the simulator: write: ") + std::strerror(errno));
        done += static_cast<size_t>(std::max<ssize_t>(written, 0));
    }
    void *library = dlopen(unique_path(file.number()).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        const char *why = dlerror();
        foreign(why != nullptr ? why : "dlopen failed");
    }
    return library;
}

const hypersonic_device_model_api *find_api(void *library, Mode mode) {
    auto *symbol = dlsym(library, HYPERSONIC_DEVICE_MODEL_SYMBOL);
    if (symbol == nullptr) foreign("it does not export " HYPERSONIC_DEVICE_MODEL_SYMBOL);
    const auto *api = reinterpret_cast<hypersonic_device_model_function>(symbol)();
    if (api == nullptr || api->abi != HYPERSONIC_DEVICE_MODEL_ABI || api->size_bytes != sizeof *api)
        foreign("it was built for device model ABI " + std::to_string(api != nullptr ? api->abi : 0) + ", expected " +
                std::to_string(HYPERSONIC_DEVICE_MODEL_ABI) + "; build the model again");
    const std::string expected = mode == Mode::kSwEmu ? "sw_emu" : "hw_emu";
    if (expected != api->target) foreign(std::string("it is a ") + api->target + " simulator in a " + expected + " xclbin");
    return api;
}

}  // namespace

Simulator::Simulator(std::span<const uint8_t> image, Mode mode) {
    check_elf(image);
    library_ = load(image);
    try {
        api_ = find_api(library_, mode);
    } catch (...) {
        dlclose(library_);
        throw;
    }
}

Simulator::~Simulator() { dlclose(library_); }

}  // namespace emu
