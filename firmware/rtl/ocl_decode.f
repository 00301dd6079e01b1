f2_registers.svh
ocl_decode.sv
