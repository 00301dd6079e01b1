../axis/ap_fixed_pkg.sv
../axis/axis_fifo.sv
../axis/axis_free_running.sv
../axis/fixed_cast.sv
rf_output.sv
rf_rom.sv
rf_depthwise.sv
