../axis/axis_fifo.sv
../axis/axis_free_running.sv
rf_cast.sv
rf_rom.sv
rf_lookup.sv
rf_hold.sv
rf_mean.sv
rf_layernorm.sv
