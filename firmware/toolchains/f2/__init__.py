# SPDX-License-Identifier: Apache-2.0
"""AWS F2: custom logic behind the shell, built with the AWS FPGA development kit."""
