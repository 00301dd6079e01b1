rf_divide.sv
rf_cast.sv
../axis/axis_fifo.sv
../axis/axis_free_running.sv
rf_global_pool.sv
