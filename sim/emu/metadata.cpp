// SPDX-License-Identifier: Apache-2.0
// Reads EMBEDDED_METADATA: the part of XML that project/platform/device/core/kernel/{port, arg} needs. Other elements are
// skipped, and so is text between tags, which has no meaning in this document.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>

#include "axlf.h"
#include "error.h"

namespace emu {

namespace {

constexpr unsigned kMaxArguments = 256;
constexpr uint64_t kDefaultControlRange = 0x1000;

struct Tag {
    std::string name;  // "/kernel" for an end tag
    bool closed = false;
    std::map<std::string, std::string> attributes;
};

[[noreturn]] void malformed(const std::string &what) { throw Error(EINVAL, "Invalid xclbin: EMBEDDED_METADATA: " + what); }

// Reads the tags of a text one after another, and never reads beyond its end.
class Tags {
public:
    explicit Tags(const std::string &xml) : xml_(xml) {}

    bool next(Tag *tag) {
        for (;;) {
            at_ = xml_.find('<', at_);
            if (at_ == std::string::npos) return false;
            ++at_;
            if (xml_.compare(at_, 3, "!--") == 0)
                skip_behind("-->");
            else if (at_ < xml_.size() && (xml_[at_] == '?' || xml_[at_] == '!'))
                skip_behind(">");
            else
                break;
        }
        read(tag);
        return true;
    }

private:
    void skip_behind(const char *end) {
        const size_t found = xml_.find(end, at_);
        if (found == std::string::npos) malformed(std::string("no ") + end + " to its end");
        at_ = found;
    }

    void read(Tag *tag) {
        *tag = Tag{};
        tag->name = word("/>= \t\r\n", true);
        for (;;) {
            skip_space();
            if (at_ >= xml_.size()) malformed("it ends inside <" + tag->name + ">");
            if (xml_[at_] == '>') break;
            if (xml_[at_] == '/') {
                tag->closed = true;
                ++at_;
                continue;
            }
            read_attribute(tag);
        }
        ++at_;
    }

    void read_attribute(Tag *tag) {
        const std::string name = word("/>= \t\r\n", false);
        skip_space();
        if (name.empty() || at_ >= xml_.size() || xml_[at_] != '=') malformed("an attribute of <" + tag->name + "> has no value");
        ++at_;
        skip_space();
        if (at_ >= xml_.size() || (xml_[at_] != '"' && xml_[at_] != '\'')) malformed("attribute " + name + " is not quoted");
        const char quote = xml_[at_++];
        const size_t end = xml_.find(quote, at_);
        if (end == std::string::npos) malformed("attribute " + name + " has no end");
        tag->attributes[name] = xml_.substr(at_, end - at_);
        at_ = end + 1;
    }

    std::string word(const char *stops, bool may_begin_with_slash) {
        const size_t begin = at_;
        if (may_begin_with_slash && at_ < xml_.size() && xml_[at_] == '/') ++at_;
        at_ = std::min(xml_.find_first_of(stops, at_), xml_.size());
        return xml_.substr(begin, at_ - begin);
    }

    void skip_space() {
        while (at_ < xml_.size() && std::isspace(static_cast<unsigned char>(xml_[at_]))) ++at_;
    }

    const std::string &xml_;
    size_t at_ = 0;
};

const std::string &text(const Tag &tag, const char *attribute) {
    const auto found = tag.attributes.find(attribute);
    if (found == tag.attributes.end()) malformed("<" + tag.name + "> has no attribute " + attribute);
    return found->second;
}

uint64_t number(const Tag &tag, const char *attribute) {
    const std::string &digits = text(tag, attribute);
    char *end = nullptr;
    const unsigned long long value = std::strtoull(digits.c_str(), &end, 0);
    if (digits.empty() || *end != '\0') malformed("<" + tag.name + " " + attribute + "=\"" + digits + "\"> is not a number");
    return value;
}

void add_argument(const Tag &tag, Kernel *kernel) {
    const uint64_t index = number(tag, "id");
    const uint64_t offset = number(tag, "offset");
    const uint64_t size_bytes = number(tag, "size");
    const uint64_t qualifier = number(tag, "addressQualifier");
    if (qualifier == 4) return;  // a stream has no register
    if (index >= kMaxArguments || offset < 0x10 || offset > 0xffff || (size_bytes != 4 && size_bytes != 8))
        malformed("argument '" + text(tag, "name") + "' of kernel " + kernel->name + " has id " + std::to_string(index) + ", offset " +
                  hex(offset) + ", size " + std::to_string(size_bytes));
    if (kernel->arguments.size() <= index) kernel->arguments.resize(index + 1);
    kernel->arguments[index] = {text(tag, "name"), static_cast<uint32_t>(offset), static_cast<uint32_t>(size_bytes), qualifier == 1};
}

}  // namespace

std::vector<Kernel> read_kernels(const std::string &xml) {
    std::vector<Kernel> kernels;
    Tags tags(xml);
    Tag tag;
    bool inside = false;
    while (tags.next(&tag)) {
        if (tag.name == "kernel") {
            kernels.push_back({text(tag, "name"), {}, kDefaultControlRange});
            inside = !tag.closed;
        } else if (tag.name == "/kernel") {
            inside = false;
        } else if (inside && tag.name == "arg") {
            add_argument(tag, &kernels.back());
        } else if (inside && tag.name == "port" && tag.attributes["mode"] == "slave") {
            kernels.back().control_range_bytes = number(tag, "range");
        }
    }
    return kernels;
}

}  // namespace emu
