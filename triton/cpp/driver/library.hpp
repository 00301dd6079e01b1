// SPDX-License-Identifier: Apache-2.0
// XRT's C API, found in a shared library at run time: the calls of host/xrt.py, with its errors.
// Source: xrt/xrt_device.h, xrt/xrt_bo.h, xrt/xrt_kernel.h, which have not changed since XRT 2.11. Any thread may call it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace hypersonic {

using Handle = void*;

// The state of a run, numbered as in ert_cmd_state (XRT, ert.h).
enum RunState : int { kCompleted = 4, kTimeout = 8 };

// The directions of a copy, numbered as in xclBOSyncDirection.
enum Direction : int { kToDevice = 0, kFromDevice = 1 };

class Library {
 public:
  // path: a path, or a name that the dynamic loader finds. Throws Error (LibraryNotFound).
  explicit Library(const std::string& path);
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  // Every method throws Error. Handles are XRT's pointers.
  Handle open_device(unsigned index) const;
  void close_device(Handle device) const noexcept;
  // Returns the uuid of the xclbin that is then on the card, 32 hex digits.
  std::string load_xclbin(Handle device, const std::string& path) const;

  // Opens a compute unit for this process alone. name: "kernel:{compute_unit}". uuid: 32 hex digits.
  Handle open_kernel(Handle device, const std::string& uuid, const std::string& name) const;
  void close_kernel(Handle kernel) const noexcept;
  int group_id(Handle kernel, int argument) const;
  std::uint32_t read_register(Handle kernel, std::uint32_t offset) const;

  Handle allocate(Handle device, std::size_t bytes, int group) const;
  std::uint8_t* map(Handle buffer) const;
  std::uint64_t address(Handle buffer) const noexcept;
  void sync(Handle buffer, Direction direction, std::size_t bytes) const;
  void free(Handle buffer) const noexcept;

  Handle open_run(Handle kernel) const;
  void set_buffer(Handle run, int argument, Handle buffer) const;
  void set_scalar(Handle run, int argument, std::uint32_t value) const;
  void start(Handle run) const;
  // Returns the run's state once it has ended, or its present state after timeout_ms, 1 or more.
  int wait(Handle run, unsigned timeout_ms) const noexcept;
  void close_run(Handle run) const noexcept;

 private:
  template <typename Function>
  void bind(Function& function, const char* name);

  std::string path_;
  void* library_;
  Handle (*device_open_)(unsigned);
  int (*device_close_)(Handle);
  int (*device_load_)(Handle, const char*);
  int (*device_uuid_)(Handle, unsigned char*);
  Handle (*kernel_open_)(Handle, const unsigned char*, const char*);
  int (*kernel_group_)(Handle, int);
  int (*kernel_read_)(Handle, std::uint32_t, std::uint32_t*);
  int (*kernel_close_)(Handle);
  Handle (*bo_alloc_)(Handle, std::size_t, std::uint64_t, std::uint32_t);
  void* (*bo_map_)(Handle);
  std::uint64_t (*bo_address_)(Handle);
  int (*bo_sync_)(Handle, int, std::size_t, std::size_t);
  int (*bo_free_)(Handle);
  Handle (*run_open_)(Handle);
  int (*run_set_)(Handle, int, ...);
  int (*run_start_)(Handle);
  int (*run_wait_)(Handle, unsigned);
  int (*run_state_)(Handle);
  int (*run_close_)(Handle);
};

// The library of the installed XRT, by the rule of host/library.py: $HYPERSONIC_XRT_LIBRARY, below $XILINX_XRT or
// /opt/xilinx/xrt, otherwise its soname. emulation: the emulated card's library, "" if emulated cards are not allowed.
std::string library_path(bool emulated, const std::string& emulation);

}  // namespace hypersonic
