// SPDX-License-Identifier: Apache-2.0
// Buffer objects, kernels and runs.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "card.h"
#include "error.h"

namespace emu {

namespace {

// XRT_BO_FLAGS_*: only normal and cacheable buffers are emulated; bits 0 to 23 are the memory index.
constexpr uint64_t kMemoryIndexMask = 0xffffff;
constexpr uint64_t kCacheable = 1u << 24;
constexpr uint32_t kControlBytes = 0x10;

size_t pages(size_t size_bytes) { return (size_bytes + 4095) / 4096 * 4096; }

// "a,b" -> a and b.
std::vector<std::string> split(const std::string &names) {
    std::vector<std::string> parts;
    for (size_t begin = 0; begin <= names.size();) {
        const size_t end = std::min(names.find(',', begin), names.size());
        parts.push_back(names.substr(begin, end - begin));
        begin = end + 1;
    }
    return parts;
}

// True if "kernel" or "kernel:{cu,...}" names this compute unit.
bool matches(const Ip &ip, const std::string &name) {
    const size_t colon = name.find(':');
    if (ip.kernel != name.substr(0, colon)) return false;
    if (colon == std::string::npos) return true;
    const std::string instances = name.substr(colon + 1);
    if (instances.size() < 2 || instances.front() != '{' || instances.back() != '}') return false;
    const std::vector<std::string> wanted = split(instances.substr(1, instances.size() - 2));
    return std::find(wanted.begin(), wanted.end(), ip.compute_unit) != wanted.end();
}

}  // namespace

BufferObject::BufferObject(std::shared_ptr<Loaded> loaded, size_t size_bytes, uint64_t flags, uint32_t group)
    : loaded_(std::move(loaded)), size_bytes_(size_bytes), group_(group) {
    const auto &banks = loaded_->xclbin.banks;
    if ((flags & ~kMemoryIndexMask & ~kCacheable) != 0)
        throw Error(ENOTSUP, "Failed to allocate a buffer: flags " + hex(flags) + ", the emulated card has normal and cacheable buffers only");
    if (size_bytes == 0) throw Error(EINVAL, "Failed to allocate a buffer: size is 0");
    if (group >= banks.size() || !banks[group].used)
        throw Error(EINVAL, "Failed to allocate a buffer: memory group " + std::to_string(group) + " is not used by this xclbin");
    address_ = loaded_->memory->allocate(banks[group], size_bytes);
    host_ = mmap(nullptr, pages(size_bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (host_ != MAP_FAILED) return;
    loaded_->memory->release(address_);
    throw Error(ENOMEM, "Failed to allocate " + std::to_string(size_bytes) + " bytes of host memory");
}

BufferObject::~BufferObject() {
    munmap(host_, pages(size_bytes_));
    loaded_->memory->release(address_);
}

void *BufferObject::host() const { return host_; }

void BufferObject::sync(int direction, size_t size_bytes, size_t offset) {
    if (direction != 0 && direction != 1) throw Error(EINVAL, "Failed to sync a buffer: direction " + std::to_string(direction));
    if (offset > size_bytes_ || size_bytes > size_bytes_ - offset)
        throw Error(EINVAL, "Failed to sync a buffer: " + std::to_string(size_bytes) + " bytes at " + std::to_string(offset) + " of " +
                                std::to_string(size_bytes_));
    loaded_->require();
    uint64_t extent_bytes = 0;
    uint8_t *device = loaded_->memory->resolve(address_, &extent_bytes) + offset;
    uint8_t *host = static_cast<uint8_t *>(host_) + offset;
    if (direction == 0)
        loaded_->to_device.copy(device, host, size_bytes);
    else
        loaded_->from_device.copy(host, device, size_bytes);
}

KernelObject::KernelObject(std::shared_ptr<Loaded> loaded, const Uuid &uuid, const std::string &name, Access access)
    : loaded_(std::move(loaded)) {
    const Xclbin &xclbin = loaded_->xclbin;
    if (uuid != xclbin.uuid)
        throw Error(EINVAL, "xclbin uuid mismatch: asked for " + uuid_text(uuid) + ", loaded is " + uuid_text(xclbin.uuid));
    const std::string kernel_name = name.substr(0, name.find(':'));
    for (const Kernel &kernel : xclbin.kernels)
        if (kernel.name == kernel_name) kernel_ = &kernel;
    if (kernel_ == nullptr) throw Error(EINVAL, "No such kernel '" + kernel_name + "': Invalid argument");
    for (size_t i = 0; i < xclbin.compute_units.size(); ++i)
        if (matches(xclbin.compute_units[i], name)) contexts_.push_back(loaded_->open(i, access));
    if (contexts_.empty()) throw Error(EINVAL, "No compute units matching '" + name + "'");
}

const Argument &KernelObject::argument(int index) const {
    if (index < 0 || static_cast<size_t>(index) >= kernel_->arguments.size() || kernel_->arguments[static_cast<size_t>(index)].size_bytes == 0)
        throw Error(EINVAL, "Bad argument index '" + std::to_string(index) + "'");
    return kernel_->arguments[static_cast<size_t>(index)];
}

int KernelObject::group(int index) const {
    const Argument &wanted = argument(index);
    const int bank = loaded_->bank_of(contexts_.front()->compute_unit->ip(), static_cast<size_t>(index));
    if (bank < 0) throw Error(EINVAL, "Argument '" + wanted.name + "' of kernel " + name() + " is connected to no memory");
    return bank;
}

// The words from 0x10 to the end of the last argument, including the reserved ones, as XRT writes them.
size_t KernelObject::register_words() const {
    uint32_t end = kControlBytes;
    for (const Argument &argument : kernel_->arguments) end = std::max(end, argument.offset + argument.size_bytes);
    return (end - kControlBytes + 3) / 4;
}

ComputeUnit &KernelObject::exclusive_unit(uint32_t offset) const {
    if (contexts_.size() != 1) throw Error(EINVAL, "Cannot read or write kernel with multiple compute units");
    if (contexts_.front()->access != Access::kExclusive) throw Error(EPERM, "Cannot read or write kernel with shared access");
    if (offset + uint64_t{4} > kernel_->control_range_bytes)
        throw Error(EINVAL, "Cannot read or write outside kernel register space");
    return *contexts_.front()->compute_unit;
}

uint32_t KernelObject::read_register(uint32_t offset) const {
    loaded_->require();
    return exclusive_unit(offset).read_register(offset);
}

void KernelObject::write_register(uint32_t offset, uint32_t value) const {
    loaded_->require();
    exclusive_unit(offset).write_register(offset, value);
}

Run::Run(std::shared_ptr<KernelObject> kernel) : kernel_(std::move(kernel)), words_(kernel_->register_words()) {
    for (const auto &context : kernel_->contexts()) candidates_.push_back(context->compute_unit);
}

void Run::set_scalar(int index, uint64_t value) {
    const Argument &wanted = argument(index);
    auto *bytes = reinterpret_cast<uint8_t *>(words_.data()) + (wanted.offset - kControlBytes);
    std::memcpy(bytes, &value, wanted.size_bytes);
}

void Run::set_buffer(int index, const BufferObject &buffer) {
    const Argument &wanted = argument(index);
    const Loaded &loaded = kernel_->loaded();
    const auto connected = [&](const ComputeUnit *unit) {
        return loaded.connected(unit->ip(), static_cast<size_t>(index), static_cast<int>(buffer.group()));
    };
    if (buffer.loaded() != &loaded) throw Error(EINVAL, "Argument '" + wanted.name + "' is a buffer of another device");
    std::vector<ComputeUnit *> left;
    std::copy_if(candidates_.begin(), candidates_.end(), std::back_inserter(left), connected);
    if (left.empty()) throw Error(EINVAL, "No compute units satisfy requested connectivity");
    candidates_ = left;
    set_scalar(index, buffer.address());
}

// The compute unit with the fewest runs takes it.
void Run::start() {
    kernel_->loaded().require();
    const Started before = started();
    if (before.compute_unit != nullptr) {
        const State state = before.compute_unit->state(before.command);
        if (state == State::kQueued || state == State::kRunning) throw Error(EBUSY, "bad command state, can't launch");
    }
    ComputeUnit *unit = candidates_.front();
    if (candidates_.size() > 1)
        unit = *std::min_element(candidates_.begin(), candidates_.end(), [](auto *a, auto *b) { return a->load() < b->load(); });
    const auto command = std::make_shared<Command>(Command{words_, State::kNew});
    unit->submit(command);
    const std::lock_guard lock(mutex_);
    started_ = {unit, command};
}

Run::Started Run::started() const {
    const std::lock_guard lock(mutex_);
    return started_;
}

State Run::state() const {
    kernel_->loaded().look();
    const Started last = started();
    return last.compute_unit != nullptr ? last.compute_unit->state(last.command) : State::kNew;
}

State Run::wait(std::optional<std::chrono::milliseconds> timeout) const {
    kernel_->loaded().look();
    const Started last = started();
    return last.compute_unit != nullptr ? last.compute_unit->wait(last.command, timeout) : State::kNew;
}

}  // namespace emu
