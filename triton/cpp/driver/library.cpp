// SPDX-License-Identifier: Apache-2.0
#include "driver/library.hpp"

#include <dlfcn.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "driver/error.hpp"

namespace hypersonic {
namespace {

constexpr const char* kSoname = "libxrt_coreutil.so.2";
constexpr const char* kOverride = "HYPERSONIC_XRT_LIBRARY";
constexpr std::size_t kUuidBytes = 16;

using Uuid = std::array<unsigned char, kUuidBytes>;

// The errno of a failed call, -1 if there is none: some functions return -1 or 1 and set errno, others return the errno itself.
int cause(int code) { return code != -1 && code != 1 ? code : errno != 0 ? errno : -1; }

void check(int code, Kind kind, const std::string& what) {
  if (code != 0) {
    throw failure(kind, what, cause(code));
  }
}

Handle checked(Handle handle, Kind kind, const std::string& what) {
  if (handle == nullptr) {
    throw failure(kind, what, errno);
  }
  return handle;
}

std::string hex(const Uuid& uuid) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : uuid) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

Uuid from_hex(const std::string& text) {
  Uuid uuid{};
  for (std::size_t index = 0; index < kUuidBytes && 2 * index + 2 <= text.size(); ++index) {
    uuid[index] = static_cast<unsigned char>(std::stoul(text.substr(2 * index, 2), nullptr, 16));
  }
  return uuid;
}

}  // namespace

Library::Library(const std::string& path) : path_(path), library_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr) {
    const char* why = dlerror();
    throw Error(Kind::LibraryNotFound, "XRT library " + path + ": " + (why != nullptr ? why : "it cannot be loaded") +
                                           "; install XRT (Debian: libxrt1) or set HYPERSONIC_XRT_LIBRARY to another one");
  }
  bind(device_open_, "xrtDeviceOpen");
  bind(device_close_, "xrtDeviceClose");
  bind(device_load_, "xrtDeviceLoadXclbinFile");
  bind(device_uuid_, "xrtDeviceGetXclbinUUID");
  bind(kernel_open_, "xrtPLKernelOpenExclusive");
  bind(kernel_group_, "xrtKernelArgGroupId");
  bind(kernel_read_, "xrtKernelReadRegister");
  bind(kernel_close_, "xrtKernelClose");
  bind(bo_alloc_, "xrtBOAlloc");
  bind(bo_map_, "xrtBOMap");
  bind(bo_address_, "xrtBOAddress");
  bind(bo_sync_, "xrtBOSync");
  bind(bo_free_, "xrtBOFree");
  bind(run_open_, "xrtRunOpen");
  bind(run_set_, "xrtRunSetArg");
  bind(run_start_, "xrtRunStart");
  bind(run_wait_, "xrtRunWaitFor");
  bind(run_state_, "xrtRunState");
  bind(run_close_, "xrtRunClose");
}

template <typename Function>
void Library::bind(Function& function, const char* name) {
  void* symbol = dlsym(library_, name);
  if (symbol == nullptr) {
    throw Error(Kind::LibraryNotFound, "XRT library " + path_ + " has no function " + name +
                                           ": install XRT 2.11 or newer, or set HYPERSONIC_XRT_LIBRARY to another one");
  }
  function = reinterpret_cast<Function>(symbol);
}

Handle Library::open_device(unsigned index) const {
  errno = 0;
  return checked(device_open_(index), Kind::DeviceNotFound, "card " + std::to_string(index) + " cannot be opened");
}

void Library::close_device(Handle device) const noexcept { device_close_(device); }

std::string Library::load_xclbin(Handle device, const std::string& path) const {
  errno = 0;
  check(device_load_(device, path.c_str()), Kind::Device, "xclbin " + path + " cannot be loaded");
  Uuid uuid{};
  check(device_uuid_(device, uuid.data()), Kind::Device, "the card does not tell its xclbin");
  return hex(uuid);
}

Handle Library::open_kernel(Handle device, const std::string& uuid, const std::string& name) const {
  const Uuid raw = from_hex(uuid);
  errno = 0;
  return checked(kernel_open_(device, raw.data(), name.c_str()), Kind::ComputeUnitNotFound,
                 "compute unit " + name + " cannot be opened");
}

void Library::close_kernel(Handle kernel) const noexcept { kernel_close_(kernel); }

int Library::group_id(Handle kernel, int argument) const {
  errno = 0;
  const int group = kernel_group_(kernel, argument);
  if (group < 0) {
    throw failure(Kind::ComputeUnitNotFound, "argument " + std::to_string(argument) + " has no memory bank", cause(group));
  }
  return group;
}

std::uint32_t Library::read_register(Handle kernel, std::uint32_t offset) const {
  std::uint32_t value = 0;
  errno = 0;
  check(kernel_read_(kernel, offset, &value), Kind::Device, "register " + std::to_string(offset) + " cannot be read");
  return value;
}

Handle Library::allocate(Handle device, std::size_t bytes, int group) const {
  errno = 0;
  return checked(
      bo_alloc_(device, bytes, 0, static_cast<std::uint32_t>(group)), Kind::BufferObject,
      "a buffer object of " + std::to_string(bytes) + " bytes in memory " + std::to_string(group) + " cannot be allocated");
}

std::uint8_t* Library::map(Handle buffer) const {
  errno = 0;
  return static_cast<std::uint8_t*>(checked(bo_map_(buffer), Kind::BufferObject, "a buffer object cannot be mapped"));
}

std::uint64_t Library::address(Handle buffer) const noexcept { return bo_address_(buffer); }

void Library::sync(Handle buffer, Direction direction, std::size_t bytes) const {
  if (bytes == 0) {
    return;
  }
  errno = 0;
  const int code = bo_sync_(buffer, direction, bytes, 0);
  if (code != 0) {
    throw failure(Kind::BufferObject,
                  std::to_string(bytes) + " bytes of a buffer object do not sync " + (direction == kToDevice ? "to" : "from") +
                      " the card",
                  cause(code));
  }
}

void Library::free(Handle buffer) const noexcept { bo_free_(buffer); }

Handle Library::open_run(Handle kernel) const {
  errno = 0;
  return checked(run_open_(kernel), Kind::Run, "a run cannot be opened");
}

void Library::set_buffer(Handle run, int argument, Handle buffer) const {
  errno = 0;
  check(run_set_(run, argument, buffer), Kind::BufferObject,
        "argument " + std::to_string(argument) + " does not take the buffer object: is it in the right memory bank?");
}

void Library::set_scalar(Handle run, int argument, std::uint32_t value) const {
  errno = 0;
  check(run_set_(run, argument, value), Kind::Run,
        "argument " + std::to_string(argument) + " does not take " + std::to_string(value));
}

void Library::start(Handle run) const {
  errno = 0;
  const int code = run_start_(run);
  if (code != 0) {
    throw failure(Kind::Run, "a run cannot be started", cause(code));
  }
}

int Library::wait(Handle run, unsigned timeout_ms) const noexcept {
  const int state = run_wait_(run, timeout_ms);
  // some releases of XRT return this when the call times out; the run's own state shows whether the run has ended so
  return state == kTimeout ? run_state_(run) : state;
}

void Library::close_run(Handle run) const noexcept { run_close_(run); }

std::string library_path(bool emulated, const std::string& emulation) {
  if (const char* override_path = std::getenv(kOverride); override_path != nullptr && *override_path != '\0') {
    return override_path;
  }
  if (emulated) {
    if (emulation.empty()) {
      throw Error(Kind::LibraryNotFound,
                  "the library of the emulated card is not known: start the server by `hypersonic triton serve`, or set "
                  "HYPERSONIC_XRT_LIBRARY");
    }
    return emulation;
  }
  const char* root = std::getenv("XILINX_XRT");
  for (const std::string& base : {std::string(root != nullptr ? root : ""), std::string("/opt/xilinx/xrt")}) {
    for (const char* name : {kSoname, "libxrt_coreutil.so"}) {
      std::error_code ignored;
      const std::filesystem::path path = std::filesystem::path(base) / "lib" / name;
      if (!base.empty() && std::filesystem::is_regular_file(path, ignored)) {
        return path;
      }
    }
  }
  return kSoname;
}

}  // namespace hypersonic
