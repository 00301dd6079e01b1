rf_rom.sv
../axis/axis_fifo.sv
../axis/axis_free_running.sv
rf_permute.sv
