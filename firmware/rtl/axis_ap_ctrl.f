../../hls/rtl/axis/axis_fifo.sv
axis_ap_ctrl.sv
