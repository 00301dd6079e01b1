# SPDX-License-Identifier: Apache-2.0
#
# Stands for Vivado's Tcl commands, which cannot be here: tclsh runs our script, each command it calls is written to
# $VIVADO_RECORD (fields separated by 0x1f), and answers with just enough of Vivado's objects for the script to go on.
# A command that is not defined here ends the script, as it would if Vivado did not know it.

set record [open $::env(VIVADO_RECORD) a]

proc note {args} {
  puts $::record [join $args \x1f]
  flush $::record
}

namespace eval ipx {}

foreach name {
  create_project update_compile_order set_property close_project read_verilog synth_design
  ipx::associate_bus_interfaces ipx::remove_user_parameter ipx::remove_memory_map
  ipx::create_xgui_files ipx::update_checksums ipx::check_integrity
} {
  proc $name {args} "note $name {*}\$args"
}

set added {}
proc add_files {args} {
  note add_files {*}$args
  foreach file [lindex $args end] {
    if {![file isfile $file]} { error "add_files: $file is not there" }
    lappend ::added [file tail $file]
  }
}

# The packager keeps the files it knows the type of; $LEFT_BEHIND is one it does not.
proc ipx::package_project {args} {
  note ipx::package_project {*}$args
  set ::packaged [dict get [dict create {*}[lrange $args 1 8]] -root_dir]
  file mkdir $::packaged
}
proc ipx::save_core {core} {
  note ipx::save_core $core
  set component [open [file join $::packaged component.xml] w]
  foreach name $::added {
    if {![info exists ::env(LEFT_BEHIND)] || $name ne $::env(LEFT_BEHIND)} { puts $component "<name>src/$name</name>" }
  }
  close $component
}

proc get_files {files} { return files:$files }
proc get_filesets {name} { return fileset:$name }
proc get_property {name object} { return $object }
proc ipx::current_core {} { return core }
proc ipx::get_user_parameters {args} { return parameter:LEFT }
proc ipx::get_memory_maps {args} { return {} }

# The packager infers nothing by itself here, so every interface must be inferred from its ports.
proc ipx::get_bus_interfaces {args} {
  set name [lindex $args end-2]
  expr {[info exists ::inferred($name)] ? "interface:$name" : ""}
}

proc ipx::infer_bus_interface {ports abstraction core} {
  note ipx::infer_bus_interface $ports $abstraction $core
  set signal [string match *signal* $abstraction]
  set name [expr {$signal ? [lindex $ports 0] : [join [lrange [split [lindex $ports 0] _] 0 2] _]}]
  set ::inferred($name) $ports
}

proc ipx::get_bus_parameters {args} { return {} }
proc ipx::add_bus_parameter {name interface} { return parameter:$interface:$name }
proc ipx::add_memory_map {name core} { note ipx::add_memory_map $name $core; return map:$name }
proc ipx::add_address_block {name map} { note ipx::add_address_block $name $map; return block:$name }
proc ipx::add_register {name block} { note ipx::add_register $name $block; return register:$name }
proc ipx::add_register_parameter {name register} { return parameter:$register:$name }
proc ipx::add_field {name register} { note ipx::add_field $name $register; return field:$register:$name }

proc package_xo {args} {
  note package_xo {*}$args
  set options [dict create {*}[lrange $args 1 end]]
  foreach needed {-xo_path -kernel_xml} {
    if {![dict exists $options $needed]} { error "package_xo: $needed is missing" }
  }
  if {![file isfile [dict get $options -kernel_xml]]} { error "package_xo: no kernel.xml" }
  set xo [open [dict get $options -xo_path] w]
  puts $xo "kernel object"
  close $xo
}

set argv [lassign $argv script]
source $script
