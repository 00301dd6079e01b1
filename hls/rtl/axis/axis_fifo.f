axis_fifo.sv
