#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Seen with dkms 3.0.10-8+deb12u1 (Debian 12).
#
# A module says in its dkms.conf (BUILD_EXCLUSIVE_CONFIG) which options of the kernel it needs. dkms leaves the module out for a kernel
# without them, as it was asked to. But `dkms autoinstall`, which the packages of kernels call, counts that module as one that failed:
# it ends with 11, the same status as for a module that does not build.
#
# So a kernel for which nothing is wrong stays "half configured" in dpkg, because of a module that nobody wants there; and a script
# that asks only for the exit status of `dkms autoinstall` cannot tell "left out" from "does not build".
#
# The script ends with 0 as long as this is so, and with 1 when it has changed. It needs Debian 12 with a network, and no root.
set -eu

version=3.0.10-8+deb12u1
kernel=6.1.0-made-up
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download --quiet --quiet "dkms=$version"
dpkg-deb --extract ./dkms_*.deb tools

# A kernel's headers, as far as dkms looks at them: modules can be built, and there is no device-mapper.
mkdir -p "modules/$kernel/build/include" tree
echo 'CONFIG_MODULES=y' >"modules/$kernel/build/.config"
printf 'all:\n' >"modules/$kernel/build/Makefile"
# depmod would want the machine's own folder of modules, to which nothing is written here.
mkdir bin
ln -s /bin/true bin/depmod
PATH=$folder/bin:$PATH

# The sources of module $1: its build is command $2, its last line is $3.
sources() {
	mkdir -p "sources/$1-1"
	: >"sources/$1-1/$1.c"
	cat >"sources/$1-1/dkms.conf" <<END
PACKAGE_NAME=$1
PACKAGE_VERSION=1
BUILT_MODULE_NAME[0]=$1
DEST_MODULE_LOCATION[0]=/updates
MAKE[0]="$2"
CLEAN=true
AUTOINSTALL=yes
$3
END
}

# Runs a command of dkms for the made-up kernel, and prints how it ended. dkms wants to be root, if only in a name space of its own.
ended() {
	status=0
	unshare --map-root-user bash tools/usr/sbin/dkms "$@" --dkmstree "$folder/tree" --sourcetree "$folder/sources" --installtree "$folder/modules" \
		-k "$kernel" -a x86_64 --kernelsourcedir "$folder/modules/$kernel/build" >>log 2>&1 || status=$?
	echo "$status"
}

# Prints how an autoinstall ends with module $1 alone.
autoinstall() {
	ended add "$1/1" >/dev/null
	ended autoinstall
	ended remove "$1/1" >/dev/null
}

sources sound 'touch sound.ko' ''
sources leftout 'touch leftout.ko' 'BUILD_EXCLUSIVE_CONFIG="CONFIG_BLK_DEV_DM"'
sources broken 'false' ''
sound=$(autoinstall sound)
leftout=$(autoinstall leftout)
broken=$(autoinstall broken)
echo "dkms $version: autoinstall ends with $sound for a sound module, $leftout for one that is left out, $broken for one that does not build"
[ "$sound" = 0 ] && [ "$leftout" = 11 ] && [ "$broken" = 11 ]
