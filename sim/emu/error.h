// SPDX-License-Identifier: Apache-2.0
// Errors of the emulated XRT library. The C functions turn them into errno and a line on stderr.
#ifndef HYPERSONIC_EMU_ERROR_H
#define HYPERSONIC_EMU_ERROR_H

#include <cerrno>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace emu {

// `code` is the errno that the caller of the C function receives.
class Error : public std::runtime_error {
public:
    Error(int code, const std::string &text) : std::runtime_error(text), code_(code) {}
    int code() const noexcept { return code_; }

private:
    int code_;
};

// One call of fprintf per line, so that the lines of several threads do not mix.
inline void say(const char *severity, const char *text) noexcept { std::fprintf(stderr, "[XRT] %s: %s\n", severity, text); }

inline std::string hex(unsigned long long value) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%llx", value);
    return text;
}

}  // namespace emu

#endif
