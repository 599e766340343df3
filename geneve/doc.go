// Package geneve reads and writes the Geneve header (RFC 8926), without options:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---+-----------+-+-+-----------+-------------------------------+
//	|Ver|  Opt Len  |O|C|   Rsvd.   |         Protocol Type         |
//	+---+-----------+-+-+-----------+---------------+---------------+
//	|        Virtual Network Identifier (VNI)       |   Reserved    |
//	+-----------------------------------------------+---------------+
//	|            Options, Opt Len times 4 bytes, each:              |
//	+-------------------------------+-+-------------+-----+---------+
//	|         Option Class          |C|    Type     |  R  | Length  |
//	+-------------------------------+-+-------------+-----+---------+
//	|                     Length times 4 bytes                      |
//	+---------------------------------------------------------------+
//
// It works on the caller's memory, does not allocate and keeps no reference.
package geneve
