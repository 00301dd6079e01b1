irq_request.sv
