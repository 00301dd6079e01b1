// SPDX-License-Identifier: Apache-2.0
// XRT's C functions (xrt/xrt_device.h, xrt_bo.h, xrt_kernel.h) for emulated cards: the symbols of libxrt_coreutil that
// host/xrt.py binds. An error returns NULL or -1, sets errno and prints XRT's line on stderr. Handles are looked up in a table
// and never dereferenced unchecked.
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <unordered_map>

#include "card.h"
#include "error.h"

#define XRT_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using emu::Error;

// The open handles of one kind. The tables are never destroyed, because a host may close its handles while the process ends.
template <typename T>
class Handles {
public:
    explicit Handles(const char *unknown) : unknown_(unknown) {}

    void *add(std::shared_ptr<T> object) {
        const std::lock_guard lock(mutex_);
        void *handle = object.get();
        open_.emplace(handle, std::move(object));
        return handle;
    }

    std::shared_ptr<T> get(void *handle) {
        const std::lock_guard lock(mutex_);
        const auto found = open_.find(handle);
        if (found == open_.end()) throw Error(EINVAL, unknown_);
        return found->second;
    }

    // The object may be destroyed here, outside the lock, because its destructor may wait for a thread.
    void remove(void *handle) {
        const std::shared_ptr<T> last = get(handle);
        const std::lock_guard lock(mutex_);
        open_.erase(handle);
    }

private:
    const char *unknown_;
    std::mutex mutex_;
    std::unordered_map<void *, std::shared_ptr<T>> open_;
};

// One xrtDeviceOpen.
class OpenDevice {
public:
    explicit OpenDevice(emu::Card &card) : card_(card), losses_(card.open()) {}
    ~OpenDevice() { card_.close(); }
    OpenDevice(const OpenDevice &) = delete;
    OpenDevice &operator=(const OpenDevice &) = delete;

    void load(const std::string &path) { card_.load(path, losses_); }
    std::shared_ptr<emu::Loaded> loaded() { return card_.loaded(losses_); }

private:
    emu::Card &card_;
    const uint64_t losses_;
};

Handles<OpenDevice> &devices() {
    static auto *table = new Handles<OpenDevice>("No such device handle");
    return *table;
}

Handles<emu::BufferObject> &buffers() {
    static auto *table = new Handles<emu::BufferObject>("No such buffer handle");
    return *table;
}

Handles<emu::KernelObject> &kernels() {
    static auto *table = new Handles<emu::KernelObject>("Unknown kernel handle");
    return *table;
}

Handles<emu::Run> &runs() {
    static auto *table = new Handles<emu::Run>("Unknown run handle");
    return *table;
}

// Runs `body`. An exception sets errno, prints a line on stderr and returns `failed`.
template <typename Result, typename Body>
Result guarded(Result failed, Body body) noexcept {
    try {
        return body();
    } catch (const Error &error) {
        emu::say("ERROR", error.what());
        errno = error.code();
    } catch (const std::bad_alloc &) {
        emu::say("ERROR", "out of memory");
        errno = ENOMEM;
    } catch (const std::exception &error) {
        emu::say("ERROR", error.what());
        errno = EINVAL;
    }
    return failed;
}

std::string text(const char *value, const char *what) {
    if (value == nullptr) throw Error(EINVAL, std::string(what) + " is NULL");
    return value;
}

template <typename T>
T *pointer(T *value, const char *what) {
    if (value == nullptr) throw Error(EINVAL, std::string(what) + " is NULL");
    return value;
}

void *open_device(unsigned index) { return devices().add(std::make_shared<OpenDevice>(emu::Card::of(index))); }

// Emulated cards have the addresses 0000:01:00.1, 0000:02:00.1, ...: one card per bus, its user function. The domain is optional.
unsigned index_of(const std::string &bdf) {
    unsigned bus = 0;
    int length = 0;
    const std::string brief = bdf.compare(0, 5, "0000:") == 0 ? bdf.substr(5) : bdf;
    const bool read = std::sscanf(brief.c_str(), "%2x:00.1%n", &bus, &length) == 1;
    if (!read || static_cast<size_t>(length) != brief.size() || bus == 0) throw Error(ENODEV, "No such device '" + bdf + "'");
    return bus - 1;
}

void *open_kernel(void *device, const unsigned char *uuid, const char *name, emu::Access access) {
    emu::Uuid wanted;
    std::memcpy(wanted.data(), pointer(uuid, "xclbin uuid"), wanted.size());
    const auto loaded = devices().get(device)->loaded();
    return kernels().add(std::make_shared<emu::KernelObject>(loaded, wanted, text(name, "kernel name"), access));
}

constexpr int kOk = 0;
constexpr int kFailed = -1;
constexpr int kAbort = static_cast<int>(emu::State::kAbort);

}  // namespace

XRT_EXPORT void *xrtDeviceOpen(unsigned int index) {
    return guarded<void *>(nullptr, [&] { return open_device(index); });
}

XRT_EXPORT void *xrtDeviceOpenByBDF(const char *bdf) {
    return guarded<void *>(nullptr, [&] { return open_device(index_of(text(bdf, "bdf"))); });
}

XRT_EXPORT int xrtDeviceClose(void *device) {
    return guarded(kFailed, [&] { return devices().remove(device), kOk; });
}

XRT_EXPORT int xrtDeviceLoadXclbinFile(void *device, const char *path) {
    return guarded(kFailed, [&] { return devices().get(device)->load(text(path, "xclbin path")), kOk; });
}

XRT_EXPORT int xrtDeviceGetXclbinUUID(void *device, unsigned char *out) {
    return guarded(kFailed, [&] {
        const auto loaded = devices().get(device)->loaded();
        std::memcpy(pointer(out, "uuid"), loaded->xclbin.uuid.data(), loaded->xclbin.uuid.size());
        return kOk;
    });
}

XRT_EXPORT void *xrtPLKernelOpen(void *device, const unsigned char *uuid, const char *name) {
    return guarded<void *>(nullptr, [&] { return open_kernel(device, uuid, name, emu::Access::kShared); });
}

XRT_EXPORT void *xrtPLKernelOpenExclusive(void *device, const unsigned char *uuid, const char *name) {
    return guarded<void *>(nullptr, [&] { return open_kernel(device, uuid, name, emu::Access::kExclusive); });
}

XRT_EXPORT int xrtKernelClose(void *kernel) {
    return guarded(kFailed, [&] { return kernels().remove(kernel), kOk; });
}

XRT_EXPORT int xrtKernelArgGroupId(void *kernel, int argument) {
    return guarded(kFailed, [&] { return kernels().get(kernel)->group(argument); });
}

XRT_EXPORT uint32_t xrtKernelArgOffset(void *kernel, int argument) {
    return guarded(UINT32_MAX, [&] { return kernels().get(kernel)->argument(argument).offset; });
}

XRT_EXPORT int xrtKernelReadRegister(void *kernel, uint32_t offset, uint32_t *data) {
    return guarded(kFailed, [&] { return *pointer(data, "data") = kernels().get(kernel)->read_register(offset), kOk; });
}

XRT_EXPORT int xrtKernelWriteRegister(void *kernel, uint32_t offset, uint32_t data) {
    return guarded(kFailed, [&] { return kernels().get(kernel)->write_register(offset, data), kOk; });
}

XRT_EXPORT void *xrtBOAlloc(void *device, size_t size, uint64_t flags, uint32_t group) {
    return guarded<void *>(nullptr, [&] {
        return buffers().add(std::make_shared<emu::BufferObject>(devices().get(device)->loaded(), size, flags, group));
    });
}

XRT_EXPORT int xrtBOFree(void *buffer) {
    return guarded(kFailed, [&] { return buffers().remove(buffer), kOk; });
}

XRT_EXPORT void *xrtBOMap(void *buffer) {
    return guarded<void *>(nullptr, [&] { return buffers().get(buffer)->host(); });
}

XRT_EXPORT uint64_t xrtBOAddress(void *buffer) {
    return guarded(UINT64_MAX, [&] { return buffers().get(buffer)->address(); });
}

XRT_EXPORT size_t xrtBOSize(void *buffer) {
    return guarded<size_t>(0, [&] { return buffers().get(buffer)->size_bytes(); });
}

XRT_EXPORT int xrtBOSync(void *buffer, int direction, size_t size, size_t offset) {
    return guarded(kFailed, [&] { return buffers().get(buffer)->sync(direction, size, offset), kOk; });
}

XRT_EXPORT void *xrtRunOpen(void *kernel) {
    return guarded<void *>(nullptr, [&] { return runs().add(std::make_shared<emu::Run>(kernels().get(kernel))); });
}

XRT_EXPORT int xrtRunClose(void *run) {
    return guarded(kFailed, [&] { return runs().remove(run), kOk; });
}

// The third argument is a buffer handle for a global argument, otherwise a 32- or 64-bit integer of the argument's size.
XRT_EXPORT int xrtRunSetArg(void *run, int index, ...) {
    std::va_list rest;
    va_start(rest, index);
    const int result = guarded(kFailed, [&] {
        const auto opened = runs().get(run);
        const emu::Argument &argument = opened->argument(index);
        if (argument.is_global)
            opened->set_buffer(index, *buffers().get(va_arg(rest, void *)));
        else
            opened->set_scalar(index, argument.size_bytes == 8 ? va_arg(rest, uint64_t) : va_arg(rest, uint32_t));
        return kOk;
    });
    va_end(rest);
    return result;
}

XRT_EXPORT int xrtRunStart(void *run) {
    return guarded(kFailed, [&] { return runs().get(run)->start(), kOk; });
}

XRT_EXPORT int xrtRunState(void *run) {
    return guarded(kAbort, [&] { return static_cast<int>(runs().get(run)->state()); });
}

XRT_EXPORT int xrtRunWait(void *run) {
    return guarded(kAbort, [&] { return static_cast<int>(runs().get(run)->wait(std::nullopt)); });
}

// A timeout of 0 ms waits for ever, as in XRT.
XRT_EXPORT int xrtRunWaitFor(void *run, unsigned int timeout_ms) {
    if (timeout_ms == 0) return xrtRunWait(run);
    return guarded(kAbort, [&] { return static_cast<int>(runs().get(run)->wait(std::chrono::milliseconds(timeout_ms))); });
}
