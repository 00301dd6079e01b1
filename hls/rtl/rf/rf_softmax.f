../axis/axis_fifo.sv
rf_hold.sv
rf_maximum.sv
../axis/axis_skid.sv
rf_cast.sv
rf_rom.sv
../axis/axis_free_running.sv
rf_softmax.sv
