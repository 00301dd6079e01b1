rf_cast.sv
../axis/axis_fifo.sv
../axis/axis_free_running.sv
rf_mac_engine.sv
