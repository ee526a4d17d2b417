#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""embed.py INPUT OUTPUT NAME: writes a text file as a C array of characters, with a NUL."""
import sys

source, target, name = sys.argv[1:]
with open(source, 'rb') as file:
    data = file.read() + b'\0'
with open(target, 'w', encoding='ascii') as file:
    file.write(f'extern const char {name}[];\nconst char {name}[] = {{\n')
    for start in range(0, len(data), 16):
        file.write('    ' + ' '.join(f'{byte},' for byte in data[start:start + 16]) + '\n')
    file.write('};\n')
