../axis/axis_fifo.sv
rf_hold.sv
rf_maximum.sv
