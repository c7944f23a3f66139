module toy

go 1.21

require fencepost v0.0.0

replace fencepost => ../../../../workloads/adapters/go
