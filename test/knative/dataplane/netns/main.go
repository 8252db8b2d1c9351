// Command netns runs a program whose ports are fixed in a network of its own, so that many of them run at once on one machine.
//
//	netns [-listen PORT:INSIDE ...] [-reach PORT ...] -- PROGRAM ARGUMENT...
//
// Connections to 127.0.0.1:PORT out here go to 127.0.0.1:INSIDE in there. Those of the program to 127.0.0.1:PORT, for each
// -reach, come out here. It works for root and wherever users may make namespaces. It ends as the program ends, and the program
// ends when it does.
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"unsafe"
)

// Which half a process is. The one inside is the same binary with this in its environment, and a socket as its descriptor 3.
const insideVariable = "SLUICE_NETNS_INSIDE"

const socketToOutside = 3

type ports struct {
	listens [][2]string
	reaches []string
	command []string
}

func parse(arguments []string) (ports, error) {
	var found ports
	for len(arguments) >= 2 && arguments[0] != "--" {
		switch flag, value := arguments[0], arguments[1]; flag {
		case "-listen":
			outside, inside, _ := strings.Cut(value, ":")
			found.listens = append(found.listens, [2]string{outside, inside})
		case "-reach":
			found.reaches = append(found.reaches, value)
		default:
			return found, fmt.Errorf("unknown flag %s", flag)
		}
		arguments = arguments[2:]
	}
	if len(arguments) < 2 {
		return found, errors.New("usage: netns [-listen PORT:INSIDE ...] [-reach PORT ...] -- PROGRAM ARGUMENT...")
	}
	found.command = arguments[1:]
	return found, nil
}

func main() {
	// A child is told of the death of the thread that started it.
	runtime.LockOSThread()
	// The whole process group gets the signals that the program is to get. Both halves wait for how it takes them.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	found, err := parse(os.Args[1:])
	code := 1
	if err == nil && os.Getenv(insideVariable) == "" {
		code, err = outside(found)
	} else if err == nil {
		code, err = inside(found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "netns:", err)
	}
	os.Exit(code)
}

// A socket belongs to the network that it was made in, whichever process holds it. So the half in here listens for the other
// one, and gets what that listens on.
func outside(found ports) (int, error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 1, err
	}
	files := []*os.File{os.NewFile(uintptr(pair[1]), "inside")}
	for _, ports := range found.listens {
		listener, err := listen(ports[0])
		if err != nil {
			return 1, err
		}
		file, err := listener.File()
		if err != nil {
			return 1, err
		}
		files = append(files, file)
	}
	child := exec.Command("/proc/self/exe", os.Args[1:]...)
	child.Env = append(os.Environ(), insideVariable+"=true")
	child.Stdout, child.Stderr, child.ExtraFiles = os.Stdout, os.Stderr, files
	child.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	if err := child.Start(); err != nil {
		return 1, fmt.Errorf("this machine gives no network of its own: %w", err)
	}
	for _, file := range files {
		file.Close()
	}
	listeners, err := receive(pair[0], len(found.reaches))
	if err == nil {
		for index, listener := range listeners {
			go relay(listener, found.reaches[index])
		}
	} else {
		child.Process.Kill()
	}
	ended := child.Wait()
	return codeOf(ended), err
}

func inside(found ports) (int, error) {
	if err := raiseLoopback(); err != nil {
		return 1, err
	}
	reached := make([]int, 0, len(found.reaches))
	for _, port := range found.reaches {
		listener, err := listen(port)
		if err != nil {
			return 1, err
		}
		file, err := listener.File()
		if err != nil {
			return 1, err
		}
		reached = append(reached, int(file.Fd()))
	}
	if err := syscall.Sendmsg(socketToOutside, []byte{0}, syscall.UnixRights(reached...), nil, 0); err != nil {
		return 1, err
	}
	syscall.Close(socketToOutside)
	for index, ports := range found.listens {
		listener, err := net.FileListener(os.NewFile(uintptr(socketToOutside+1+index), "outside"))
		if err != nil {
			return 1, err
		}
		go relay(listener, ports[1])
	}
	os.Unsetenv(insideVariable)
	program := exec.Command(found.command[0], found.command[1:]...)
	program.Stdout, program.Stderr = os.Stdout, os.Stderr
	program.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := program.Start(); err != nil {
		return 127, err
	}
	return codeOf(program.Wait()), nil
}

func listen(port string) (*net.TCPListener, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:"+port)
	if err != nil {
		return nil, err
	}
	return listener.(*net.TCPListener), nil
}

// Takes the descriptors of so many listeners from the other half.
func receive(socket int, count int) ([]net.Listener, error) {
	space := make([]byte, syscall.CmsgSpace(4*max(count, 1)))
	read, length, _, _, err := syscall.Recvmsg(socket, make([]byte, 1), space, syscall.MSG_CMSG_CLOEXEC)
	if err != nil || read == 0 {
		return nil, errors.Join(errors.New("the half inside ended before it listened"), err)
	}
	messages, err := syscall.ParseSocketControlMessage(space[:length])
	if err != nil {
		return nil, err
	}
	var listeners []net.Listener
	for _, message := range messages {
		descriptors, err := syscall.ParseUnixRights(&message)
		if err != nil {
			return nil, err
		}
		for _, descriptor := range descriptors {
			listener, err := net.FileListener(os.NewFile(uintptr(descriptor), "inside"))
			if err != nil {
				return nil, err
			}
			listeners = append(listeners, listener)
		}
	}
	return listeners, nil
}

// A new network has a loopback interface that is down.
func raiseLoopback() error {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(socket)
	// struct ifreq
	request := struct {
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}{flags: syscall.IFF_UP}
	copy(request.name[:], "lo")
	_, _, failure := syscall.Syscall(syscall.SYS_IOCTL, uintptr(socket), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request)))
	if failure != 0 {
		return fmt.Errorf("the loopback interface stays down: %w", failure)
	}
	return nil
}

// Hands every connection on to a port of 127.0.0.1 in the network of this process.
func relay(listener net.Listener, port string) {
	for {
		from, err := listener.Accept()
		if err != nil {
			fmt.Fprintln(os.Stderr, "netns:", err)
			return
		}
		go func() {
			to, err := net.Dial("tcp4", "127.0.0.1:"+port)
			if err != nil {
				// As near to "connection refused" as it gets: a reset.
				from.(*net.TCPConn).SetLinger(0)
				from.Close()
				return
			}
			go pump(from.(*net.TCPConn), to.(*net.TCPConn))
			pump(to.(*net.TCPConn), from.(*net.TCPConn))
		}()
	}
}

// Copies until one side has said all, and tells the other so.
func pump(from, to *net.TCPConn) {
	if _, err := io.Copy(to, from); err != nil {
		from.Close()
		to.Close()
		return
	}
	to.CloseWrite()
}

// As a shell has it: the exit code, or 128 and the number of the signal.
func codeOf(ended error) int {
	var failed *exec.ExitError
	if ended == nil {
		return 0
	}
	if !errors.As(ended, &failed) {
		return 1
	}
	if status := failed.Sys().(syscall.WaitStatus); status.Signaled() {
		return 128 + int(status.Signal())
	}
	return failed.ExitCode()
}
