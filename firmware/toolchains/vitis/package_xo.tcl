# SPDX-License-Identifier: Apache-2.0
#
# Packages a kernel's RTL as a Vitis kernel object: `vivado -mode batch -source package_xo.tcl`.
#
# All properties of the kernel are in kernel.tcl in the same directory, which is generated from the register map; this script
# only uses them. Sources of the commands and properties: UG1393 and UG1118 (packaging RTL kernels), UG835 (Tcl commands);
# XD099, "Manually Creating the Kernel XML File" (package_xo takes -kernel_xml in place of -ctrl_protocol, which is in the XML);
# MAX_BURST_LENGTH, NUM_READ_OUTSTANDING and NUM_WRITE_OUTSTANDING as in axi_dmac of analogdevicesinc/hdl.

set here [file dirname [file normalize [info script]]]
source [file join $here kernel.tcl]

# Returns the interface called `name`: the one that the packager inferred, or one inferred now from the given ports.
proc bus_interface {core name ports abstraction} {
  set found [ipx::get_bus_interfaces -quiet $name -of_objects $core]
  if {[llength $found] == 0} {
    ipx::infer_bus_interface $ports $abstraction $core
    set found [ipx::get_bus_interfaces -quiet $name -of_objects $core]
  }
  if {[llength $found] != 1} {
    error "ERROR: interface $name was not found among the ports of the kernel: $ports"
  }
  return $found
}

proc set_bus_parameter {interface name value} {
  set parameter [ipx::get_bus_parameters -quiet $name -of_objects $interface]
  if {[llength $parameter] == 0} {
    set parameter [ipx::add_bus_parameter $name $interface]
  }
  set_property value $value $parameter
}

# Adds one register of the control port, with its fields. pointer: for the address of a buffer, the interface that accesses it.
proc add_register {block name offset bits access text pointer fields} {
  set register [ipx::add_register $name $block]
  set_property description $text $register
  set_property address_offset $offset $register
  set_property size $bits $register
  set_property access $access $register
  if {$pointer ne ""} {
    set parameter [ipx::add_register_parameter ASSOCIATED_BUSIF $register]
    set_property value $pointer $parameter
  }
  foreach field $fields {
    lassign $field field_name bit field_text
    set made [ipx::add_field $field_name $register]
    set_property bit_offset $bit $made
    set_property bit_width 1 $made
    set_property description $field_text $made
  }
}

create_project -force package [file join $here package project] -part $part
add_files -norecurse [lmap source $sources {file join $here $source}]
if {[llength $memories] != 0} {
  set files [lmap memory $memories {file join $here $memory}]
  add_files -norecurse $files
  # with this file type Vivado finds them by their base names, here and in every synthesis of the packaged kernel
  set_property file_type {Memory Initialization Files} [get_files $files]
}
set_property include_dirs [list [file join $here rtl]] [get_filesets sources_1]
set_property top $kernel [get_filesets sources_1]
update_compile_order -fileset sources_1

set ip [file join $here package ip]
ipx::package_project -force -root_dir $ip -vendor hypersonic -library kernel -taxonomy /KernelIP -import_files
set core [ipx::current_core]
set_property name $kernel $core
set_property version 1.0 $core
set_property display_name $kernel $core
set_property description "neural network kernel $kernel, written by hypersonic" $core
foreach parameter [ipx::get_user_parameters -quiet -of_objects $core] {
  ipx::remove_user_parameter [get_property NAME $parameter] $core
}

set clock_interface [bus_interface $core $clock [list $clock] xilinx.com:signal:clock_rtl:1.0]
set reset_interface [bus_interface $core $reset [list $reset] xilinx.com:signal:reset_rtl:1.0]
set_bus_parameter $reset_interface POLARITY ACTIVE_LOW
set_bus_parameter $clock_interface ASSOCIATED_RESET $reset
set interrupt_interface [bus_interface $core $interrupt [list $interrupt] xilinx.com:signal:interrupt_rtl:1.0]
set_bus_parameter $interrupt_interface SENSITIVITY LEVEL_HIGH

foreach entry $interfaces {
  lassign $entry name mode ports limits
  set interface [bus_interface $core $name $ports xilinx.com:interface:aximm_rtl:1.0]
  if {$mode ne ""} {
    set_bus_parameter $interface READ_WRITE_MODE $mode
    set_bus_parameter $interface SUPPORTS_NARROW_BURST 0
    foreach {parameter value} $limits {
      set_bus_parameter $interface $parameter $value
    }
  }
  ipx::associate_bus_interfaces -busif $name -clock $clock $core
}
ipx::associate_bus_interfaces -clock $clock -reset $reset $core

set map [ipx::get_memory_maps -quiet $control -of_objects $core]
if {[llength $map] != 0} {
  ipx::remove_memory_map $control $core
}
set map [ipx::add_memory_map $control $core]
set_property slave_memory_map_ref $control [ipx::get_bus_interfaces $control -of_objects $core]
set block [ipx::add_address_block reg0 $map]
set_property range $address_range $block
set_property width 32 $block
foreach register $registers {
  add_register $block {*}$register
}

set_property sdx_kernel true $core
set_property sdx_kernel_type rtl $core
set_property vitis_drc [list ctrl_protocol $protocol] $core
set_property ipi_drc {ignore_freq_hz true} $core
set_property supported_families { } $core
set_property auto_family_support_level level_2 $core
ipx::create_xgui_files $core
ipx::update_checksums $core
ipx::check_integrity -kernel $core
ipx::save_core $core
close_project

# For a memory file that is missing in the package, synthesis would use zeros, with no more than a warning.
set component [open [file join $ip component.xml]]
set packaged [read $component]
close $component
foreach memory $memories {
  if {[string first [file tail $memory] $packaged] < 0} {
    error "ERROR: memory file [file tail $memory] was not packaged with the kernel"
  }
}

package_xo -force -xo_path [file join $here $xo] -kernel_name $kernel -ip_directory $ip -kernel_xml [file join $here kernel.xml]
