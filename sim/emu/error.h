// SPDX-License-Identifier: Apache-2.0
// Errors inside the emulated XRT library: thrown anywhere, turned into errno and a line on stderr at the C border.
#ifndef HYPERSONIC_EMU_ERROR_H
#define HYPERSONIC_EMU_ERROR_H

#include <cerrno>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace emu {

// `code` is the errno the caller of the C function finds.
class Error : public std::runtime_error {
public:
    Error(int code, const std::string &text) : std::runtime_error(text), code_(code) {}
    int code() const noexcept { return code_; }

private:
    int code_;
};

// One write per line, so that lines of several threads do not mix.
inline void say(const char *severity, const char *text) noexcept { std::fprintf(stderr, "[XRT] %s: %s\n", severity, text); }

inline std::string hex(unsigned long long value) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%llx", value);
    return text;
}

}  // namespace emu

#endif
