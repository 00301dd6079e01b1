// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hypersonic {

// The UUID of a name in the namespace of DNS, as Python's uuid.uuid5 makes it (RFC 9562: the SHA-1 of both).
std::string uuid5(const std::string& name);

}  // namespace hypersonic
