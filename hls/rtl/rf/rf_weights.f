../axis/axis_skid.sv
../axis/axis_fifo.sv
../axis/axis_free_running.sv
rf_load.sv
rf_weights.sv
