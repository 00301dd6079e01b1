rf_cast.sv
../axis/axis_skid.sv
../axis/axis_fifo.sv
../axis/axis_free_running.sv
rf_load.sv
rf_biases.sv
rf_mac_engine.sv
rf_mac_stream.sv
