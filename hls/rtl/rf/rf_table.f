rf_rom.sv
rf_cast.sv
rf_lookup.sv
../axis/axis_fifo.sv
../axis/axis_free_running.sv
rf_table.sv
