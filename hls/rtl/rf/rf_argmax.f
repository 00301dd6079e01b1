../axis/axis_skid.sv
../axis/axis_fifo.sv
rf_hold.sv
rf_maximum.sv
rf_argmax.sv
