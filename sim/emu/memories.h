// SPDX-License-Identifier: Apache-2.0
// Writes the files of memory_file.h's table to a directory, where the core's $readmemh reads them.
#ifndef HYPERSONIC_MEMORIES_H
#define HYPERSONIC_MEMORIES_H

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "memory_file.h"
#include "verilated.h"

namespace emu {

// Writes the files into a new directory that only this user may read, passes +memories=DIR to `context`, and removes them when
// it is destroyed. Throws std::runtime_error if they cannot be written.
class ExtractedMemories {
public:
    explicit ExtractedMemories(VerilatedContext &context) {
        if (kMemoryCount == 0) return;
        const char *named = std::getenv("TMPDIR");
        const std::string place = named != nullptr && *named != '\0' ? named : "/tmp";
        std::string directory = place + "/hypersonic-memories-XXXXXX";
        if (mkdtemp(directory.data()) == nullptr) fail(place);
        directory_ = directory;
        try {
            for (size_t i = 0; i < kMemoryCount; ++i) extract(kMemories[i]);
            const std::string argument = "+memories=" + directory_;
            const char *arguments[] = {"kernel", argument.c_str()};
            context.commandArgs(2, arguments);
        } catch (...) {
            remove();
            throw;
        }
    }
    ~ExtractedMemories() { remove(); }
    ExtractedMemories(const ExtractedMemories &) = delete;
    ExtractedMemories &operator=(const ExtractedMemories &) = delete;

private:
    [[noreturn]] static void fail(const std::string &path) {
        throw std::runtime_error("the simulated kernel's memory files cannot be written: " + path + ": " + std::strerror(errno));
    }

    void extract(const MemoryFile &memory) {
        files_.push_back(directory_ + "/" + memory.name);
        const int file = open(files_.back().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (file < 0) fail(files_.back());
        for (const char *at = memory.begin; at != memory.end;) {
            const ssize_t written = ::write(file, at, static_cast<size_t>(memory.end - at));
            if (written < 0 && errno == EINTR) continue;
            if (written < 0) {
                const int why = errno;
                close(file);
                errno = why;
                fail(files_.back());
            }
            at += written;
        }
        close(file);
    }

    void remove() {
        for (const std::string &file : files_) unlink(file.c_str());
        if (!directory_.empty()) rmdir(directory_.c_str());
    }

    std::string directory_;
    std::vector<std::string> files_;
};

}  // namespace emu

#endif
