axis_fifo.sv
axis_free_running.sv
