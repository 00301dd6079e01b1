# SPDX-License-Identifier: Apache-2.0
#
# Checks whether this Vivado can build for the card's device: `vivado -mode batch -source check_part.tcl -tclargs PART FILE`.
# One register is synthesised, which takes a minute and needs the device to be installed and licensed, just as the kernel will
# hours later. Writes FILE when that worked.

lassign $argv part file
set here [file dirname [file normalize [info script]]]

create_project -in_memory -part $part
read_verilog [file join $here check_part.v]
synth_design -top check_part -part $part -mode out_of_context
set written [open [file join $here $file] w]
puts $written $part
close $written
